// Tells the editor extension, if there is one, what the lines of the recorded cell took, and what of it is selected.
import {Asker} from '../shared/asker.js';
import {columnsOf} from '../shared/packing.js';
import {lineBefore} from '../shared/run_before.js';
import {filters} from '../shared/store.js';
import {formatShare, formatTime} from '../shared/units.js';
import {answersTo} from '../widget/page_answers.js';

const PROTOCOL = 1;
const SETTLED_MS = 150;
const HOTTEST = 5;
const ALONE = 0.9; // own share of the time of a line whose bar tells its own time

/**
 * What is told of each line, the numbers of the editor being those of the cell behind its empty first lines.
 * @param {ShownSource} part
 * @param {number} above empty lines before the first
 * @param {RunBefore | undefined} run the run before
 * @param {SelectionState} state
 * @returns {EditorLine[]}
 */
export function editorLines(part, above, run, state) {
  const {columns, select} = part,
    most = (/** @type {string} */ key) => Math.max(...Array.from(columns[key] ?? [0])),
    [host, device] = [most('total_ns'), most('device_ns')];
  return Array.from(columns.line, (line, i) => {
    const total = columns.total_ns?.[i] ?? 0,
      own = columns.self_ns?.[i] ?? 0,
      launched = columns.device_ns?.[i] ?? 0,
      unrecorded = columns.unrecorded_ns?.[i] ?? 0,
      then = lineBefore(run, select?.[i]?.line?.[0], state),
      before = then && own > ALONE * total ? Math.min(1, (then.ratio * total) / host) : undefined,
      words = [
        `${formatTime(total)}, ${formatShare(total / host)} of the hottest line`,
        `self ${formatTime(own)}${then ? `: ${then.words}` : ''}`,
        launched ? `device ${formatTime(launched)}` : '',
        unrecorded ? `${formatTime(unrecorded)} of it outside of the recorded steps` : '',
        columns.count?.[i] > 0 ? `ran ${columns.count[i]} ×` : unrecorded ? '' : 'sampled',
      ];
    return {line: line + above, host: total / host, device: device ? launched / device : 0, before, label: words.filter(Boolean).join('\n')};
  }).filter(({host: share}, i) => select?.[i] || share > 0);
}

/**
 * @param {EditorLine[]} lines
 */
function inWords(lines) {
  const hottest = [...lines].sort((a, b) => b.host - a.host).slice(0, HOTTEST);
  return `Profiled: ${hottest.map(({line, label}) => `line ${line}: ${label.split('\n')[0]}`).join('; ')}.`;
}

/** The events of one display of a profile. */
export class LineEvents {
  /** @type {ShownSource | null} */ part = null;
  timer = 0;
  widget = Symbol('widget');

  /**
   * @param {{manager: unknown, el: HTMLElement, cell: {id: string, source: string}, transport: Transport, store: Store, before?: RunBefore}} given
   */
  constructor({manager, el, cell, transport, store, before}) {
    this.manager = manager;
    this.el = el;
    this.cell = cell;
    this.store = store;
    this.before = before;
    this.asker = new Asker(transport, () => {});
    const written = cell.source.split('\n');
    this.above = Math.max(0, written.findIndex((text) => text.trim()));
    this.again = () => this.tell();
    document.addEventListener('notebook-prof:gutter', this.again);
    this.stop = store.subscribe((patch) => this.changed(patch));
    this.forget = transport.whenTold?.((_, pieces, told) => {
      this.before = told;
      this.tell();
    });
    this.ask();
  }

  /** @param {SelectionPatch} patch */
  changed(patch) {
    const keys = Object.keys(patch);
    if (keys.includes('line')) this.tell();
    if (!filters(patch, 'line')) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.ask(), SETTLED_MS);
  }

  async ask() {
    try {
      const answer = await this.asker.ask({t: 'panel', name: 'source', own: ['line'], choices: {}});
      const parts = 'parts' in answer ? answer.parts : [],
        at = parts.findIndex((one) => one.kind === 'source' && one.file === 'cell'),
        part = parts[at];
      this.part = part?.kind === 'source' && 'data' in answer ? {...part, columns: columnsOf(answer.data, at)} : null;
      this.tell();
    } catch {
      // the views say when the kernel does not answer; the editor keeps what it shows
    }
  }

  tell() {
    const lines = this.part ? editorLines(this.part, this.above, this.before, this.store.get()) : null;
    this.send(lines);
  }

  /** @param {EditorLine[] | null} lines */
  send(lines) {
    const {manager, el, cell, widget, part, above} = this,
      chosen = new Set(this.store.get().line ?? []),
      numbers = part?.select?.flatMap((patch, i) => (patch?.line?.some((key) => chosen.has(key)) ? [part.columns.line[i] + above] : []));
    /** @type {EditorHeat} */
    const detail = {
      protocol: PROTOCOL,
      widget,
      manager,
      el,
      cell: cell.id,
      source: cell.source,
      lines,
      chosen: numbers ?? [],
      words: lines ? inWords(lines) : '',
      select: (line, extend) => this.select(line, extend),
    };
    document.dispatchEvent(new CustomEvent('notebook-prof:lines', {detail}));
  }

  /**
   * A click in the editor selects the line; the same again takes it away.
   * @param {number} line
   * @param {boolean} extend
   */
  select(line, extend) {
    const {part, store, above} = this,
      at = part ? Array.from(part.columns.line).indexOf(line - above) : -1,
      key = part?.select?.[at]?.line?.[0];
    if (!key) return;
    const now = store.get().line ?? [],
      others = now.filter((one) => one !== key),
      next = extend ? [...others, ...(now.includes(key) ? [] : [key])] : now.length === 1 && now[0] === key ? [] : [key];
    store.set({line: next.length ? next : null}, 'editor');
  }

  close() {
    clearTimeout(this.timer);
    document.removeEventListener('notebook-prof:gutter', this.again);
    this.stop();
    this.forget?.();
    this.asker.close();
    this.send(null);
  }
}

/**
 * Tell the editor of the recorded cell, as long as a display lasts.
 * @type {import('../widget/widget.js').Beside}
 */
export function publishLines({cell, before}, model, el, line) {
  if (!cell) return () => {};
  const events = new LineEvents({manager: model.widget_manager, el, cell, transport: answersTo(line), store: line.store, before});
  return () => events.close();
}
