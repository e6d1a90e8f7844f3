// What a report of ranks holds: figures as they were drawn, and stacked timelines, which are opened once, with the ranks that
// were not asked for hidden.
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

/**
 * Make the transport of a report of ranks: its figures follow no selection.
 * @param {RanksAnswer} drawn
 * @param {ReturnType<typeof createLocalTimelines>} timelines
 * @returns {Transport}
 */
export function createLocalRanks(drawn, timelines) {
  return {
    async request(message) {
      if (message.of !== undefined) return timelines.ask(message);
      let content;
      try {
        content = message.t === 'open' ? await timelines.open(/** @type {{ranks: number[]} & Message} */ (message)) : drawn;
      } catch (error) {
        content = {failed: String(error)};
      }
      return {content: {...content, columns: [], seq: /** @type {number} */ (message.seq), ms: 0}, buffers: []};
    },
  };
}
