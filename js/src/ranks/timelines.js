// The stacked timelines that lie in a report of ranks: opened once, with the ranks that were not asked for hidden.
import {reply} from '../shared/packing.js';
import {formatNumbers} from '../shared/units.js';

/**
 * Make what opens the timelines of the file.
 * @param {RankTimelinesSettings} settings
 * @param {() => Promise<{document: DocumentJson, settings: Settings, transport: Transport}>} unpack
 */
export function createLocalTimelines({ranks: inside, note}, unpack) {
  /** @type {ReturnType<typeof unpack> | null} */
  let opening = null;
  /** @type {Transport | null} */
  let transport = null;
  let number = 0;
  /** @type {number[]} */
  let hidden = [];
  /**
   * @param {{ranks: number[]}} message
   * @returns {Promise<{failed: string} | OpenedTimelines>}
   */
  async function open({ranks}) {
    const shown = ranks.filter((rank) => inside.includes(rank));
    if (!shown.length) return {failed: `rank ${formatNumbers(ranks)}: ${note}`};
    const opened = await (opening ??= unpack());
    transport = opened.transport;
    hidden = inside.filter((rank) => !shown.includes(rank));
    const left = ranks.filter((rank) => !inside.includes(rank)),
      missing = left.length ? `Rank ${formatNumbers(left)}: ${note}` : '';
    const notice = [missing, opened.settings.notice].filter(Boolean).join(' ');
    return {
      of: ++number,
      ranks: shown,
      document: JSON.stringify(opened.document),
      settings: {...opened.settings, notice},
      select: hidden.length ? shown : null,
    };
  }
  return {
    open,
    /** @param {Message} message */
    async ask(message) {
      if (!transport || message.of !== number) return reply({failed: 'this timeline has been replaced by another one'});
      const answer = await transport.request(message);
      return message.t === 'meta' ? {...answer, content: {...answer.content, hidden}} : answer;
    },
  };
}
