// A live view whose recording has come into the page: the page answers what it can, Python the rest.
// Until then, and where a recording is too long for a page, the kernel answers.
import {createLocal} from '../report/answers.js';
import {unpackGiven} from '../report/file/unpack.js';
import {reply, unpack} from '../shared/packing.js';
import {DIMENSIONS} from '../shared/store.js';
import {patiently} from './line.js';

const AGAIN_MS = 300;
const MOST_TABS = 40; // answers of some 20 kB each
const GONE = 'This is worked out in Python, whose kernel has ended. Run the cell again.';

/** What a view shows instead where Python is asked and has gone. @type {Record<string, (q: any) => RawAnswer>} */
const WITHOUT_PYTHON = {
  panel: ({name}) => reply({name, absent: GONE}),
  what_if: () => reply({found: false, text: GONE}),
  why: () => reply({found: false, lines: [GONE]}),
};

/**
 * The answers of a widget model, shared by its views.
 * @param {import('./line.js').Line} line
 */
export const answersTo = (line) => (line.inPage ??= new PageAnswers(line));

/** @implements {Transport} */
export class PageAnswers {
  /** @type {ReturnType<typeof createLocal> | null} */ local = null;
  fetching = false;
  /** Answers for tabs that Python has computed, by question. @type {Map<string, RawAnswer>} */ tabs = new Map();
  /** Dimensions that a tab follows, by name and choices. @type {Map<string, Dimension[]>} */ followed = new Map();
  changes = 0;

  /** @param {import('./line.js').Line} line */
  constructor(line) {
    this.line = line;
    this.whenLost = line.whenLost;
    this.whenTold = line.whenTold;
    this.flush = line.flush;
    line.store.subscribe(() => this.changes++);
  }

  /** Whether the views go on without a kernel. */
  get alone() {
    return this.local !== null;
  }

  /**
   * @param {Message} message
   * @returns {Promise<RawAnswer>}
   */
  request = (message) => {
    if (this.local?.answers(message.t)) return this.local.request(message);
    // answers are kept from the first on: the editor asks for the lines of the cell at once, and they outlive the kernel
    if (message.t === 'panel' && (this.local || !this.line.lost)) return this.panel(/** @type {any} */ (message));
    const without = WITHOUT_PYTHON[message.t];
    if (this.line.lost && this.local && without) return Promise.resolve(without(message));
    return this.line.request(message);
  };

  /**
   * Answer a tab as Python computed it under what the tab follows of this selection or, without a kernel, for the whole
   * recording.
   * @param {Message & PanelRequest & {seq: number}} message
   * @returns {Promise<RawAnswer>}
   */
  async panel(message) {
    const {name, own, choices, seq} = message,
      state = this.line.store.get(),
      tab = JSON.stringify([name, choices]),
      keyed = () => {
        const follows = this.followed.get(tab) ?? DIMENSIONS;
        return tab + JSON.stringify(follows.filter((d) => state[d] != null && !own?.includes(d)).map((d) => [d, state[d]]));
      },
      changes = this.changes,
      whole = this.tabs.get(`${tab}[]`),
      known = this.tabs.get(keyed());
    if (known) return {...known, content: {...known.content, seq}};
    if (this.line.lost) return whole ? {...whole, content: {...whole.content, seq, whole: true}} : WITHOUT_PYTHON.panel(message);
    const answer = await this.line.request(message),
      {pending, failed, under} = /** @type {any} */ (answer.content);
    if (pending || failed || changes !== this.changes) return answer; // the selection changed meanwhile, and the answer may be for either
    if (this.tabs.size >= MOST_TABS) this.tabs.delete(/** @type {string} */ (this.tabs.keys().next().value));
    if (under) this.followed.set(tab, under);
    this.tabs.set(keyed(), answer);
    return answer;
  }

  /** Fetch the recording once, unless it is too long for a page. */
  async fetch() {
    if (this.fetching) return;
    this.fetching = true;
    while (!this.line.lost) {
      const answer = await patiently(this.line.request({t: 'recording'}));
      if (answer?.content.pending) await new Promise((done) => setTimeout(done, AGAIN_MS));
      else if (answer) return this.open(answer);
    }
  }

  /** @param {RawAnswer} answer */
  async open(answer) {
    if (answer.content.failed || 'too_many' in answer.content) return;
    const given = JSON.parse(new TextDecoder().decode(unpack(answer).json)),
      {columns} = await unpackGiven(given, {tabs: {}, focus: true});
    this.local = createLocal(columns, given, this.line.store);
    this.line.keep();
  }
}
