// The line to the kernel of a widget: one a widget model, shared by its views.
import {RESEND_MS} from '../shared/asker.js';
import {createStore} from '../shared/store.js';

export const MOST_ATTEMPTS = 3;

/**
 * What is used of the model that anywidget gives.
 * @typedef {object} WidgetModel
 * @property {(name: string) => any} get a trait
 * @property {(event: string, listener: (...told: any[]) => void) => void} on
 * @property {(event: string, listener: (...told: any[]) => void) => void} off
 * @property {(message: unknown) => void} send
 * @property {Line} [nbpLine]
 * @property {unknown} [widget_manager]
 */

/**
 * A promise of an answer, or of null after a while; the timer is left to nobody.
 * @template Answer
 * @param {Promise<Answer>[]} answers
 * @returns {Promise<Answer | null>}
 */
export async function patiently(...answers) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  /** @type {Promise<null>} */
  const patience = new Promise((resolve) => {
    timer = setTimeout(() => resolve(null), RESEND_MS);
  });
  const answer = await Promise.race([...answers, patience]);
  clearTimeout(timer);
  return answer;
}

/**
 * Bytes of a base64 text, as a buffer of a message would hold them.
 * @param {string} part
 */
const decoded = (part) => new DataView(Uint8Array.from(atob(part), (c) => c.charCodeAt(0)).buffer);

/**
 * The line of a widget model.
 * @param {WidgetModel} model
 */
export const lineTo = (model) => (model.nbpLine ??= new Line(model));

/**
 * Questions, answers and the selection over the comm.
 * @implements {Transport}
 */
export class Line {
  /** @type {Map<string, {done: (answer: RawAnswer) => void, again: () => void}>} */ waiting = new Map();
  /** @type {Set<() => void>} */ mourners = new Set();
  /** @type {object[]} */ batch = [];
  number = 0;
  lost = false;
  /** Whether the page answers by itself: then a selection holds whether Python hears of it or not. */
  kept = false;
  /** @type {import('./page_answers.js').PageAnswers | undefined} */ inPage;
  /** Whether this page gets no binary buffers: answers come as base64 then. */
  text = false;

  /** @param {WidgetModel} model */
  constructor(model) {
    this.model = model;
    // ipywidgets says when the kernel behind a widget has gone: at a restart, at once
    model.on('comm_live_update', this.lose);
    model.on('msg:custom', (content, buffers) => this.listen(content, buffers));
    this.store = createStore(model.get('selection'), (patch, origin) => this.select(patch, origin));
    model.on('change:selection', () => this.store.adopt(model.get('selection')));
  }

  /** The kernel behind the widget has gone. */
  lose = () => {
    this.lost = true;
    for (const tell of this.mourners) tell();
  };

  /** @param {() => void} tell */
  whenLost = (tell) => {
    this.mourners.add(tell);
    if (this.lost) tell();
    return () => void this.mourners.delete(tell);
  };

  /**
   * The verdict of a long recording comes when it has been worked out.
   * @param {(text: string, pieces: HeadlinePiece[][], before: RunBefore | undefined) => void} tell
   */
  whenTold = (tell) => {
    const {model} = this;
    const told = () => {
      const text = model.get('headline'),
        before = model.get('before');
      if (text) tell(text, model.get('pieces'), before?.steps && before); // empty without a run before
    };
    model.on('change:headline', told);
    told();
    return () => model.off('change:headline', told);
  };

  /**
   * One answer, or several in one message, each with its own buffers.
   * @param {any} content
   * @param {DataView[] | undefined} buffers
   */
  listen(content, buffers) {
    let from = 0;
    for (const one of content.several ?? [content]) {
      const asked = this.waiting.get(one.rid),
        mine = one.base64?.map(decoded) ?? (buffers ?? []).slice(from, from + (one.buffers ?? 0));
      from += one.buffers ?? 0;
      if (!asked) continue;
      if (mine.length < (one.buffers ?? 0)) {
        // a front-end that drops buffers: the same question once more, and all that follow, as text
        this.text = true;
        asked.again();
        continue;
      }
      this.waiting.delete(one.rid);
      asked.done({content: one, buffers: mine});
    }
  }

  /**
   * What one gesture asks goes as one message: every message makes the kernel busy and idle again, and JupyterLab draws
   * its toolbar anew each time.
   */
  flush = () => {
    const messages = this.batch.splice(0);
    if (!messages.length) return;
    try {
      this.model.send(messages.length > 1 ? {t: 'several', messages} : messages[0]);
    } catch {
      this.lose(); // JupyterLab throws where the kernel was shut down: of that ipywidgets says nothing
    }
  };

  /**
   * @param {Message} message
   * @returns {Promise<RawAnswer>}
   */
  request = (message) =>
    new Promise((resolve, reject) => {
      if (this.lost) {
        reject(new Error('its kernel has gone'));
        return;
      }
      const rid = `${++this.number}.${Math.random().toString(36).slice(2, 8)}`;
      const again = () => {
        this.batch.push({...message, rid, ...(this.text && {base64: true})});
        if (this.batch.length === 1) queueMicrotask(this.flush);
      };
      this.waiting.set(rid, {done: resolve, again});
      again();
    });

  /**
   * A selection is told again where no answer comes: said twice it is the same.
   * @param {SelectionPatch} patch
   * @param {string} origin
   */
  async select(patch, origin) {
    if (this.kept) return this.selectKept(patch, origin);
    for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
      const answer = await patiently(this.request({t: 'select', patch, origin}));
      if (answer) return /** @type {{state?: SelectionState}} */ (answer.content);
    }
    return null;
  }

  keep() {
    this.kept = true;
  }

  /**
   * @param {SelectionPatch} patch
   * @param {string} origin
   */
  async selectKept(patch, origin) {
    let stop = () => {};
    /** @type {Promise<null>} */
    const gone = new Promise((resolve) => {
      stop = this.whenLost(() => resolve(null));
    });
    const answer = await Promise.race([this.request({t: 'select', patch, origin}).catch(() => null), gone]);
    stop();
    return answer ? /** @type {{state?: SelectionState}} */ (answer.content) : {state: {...this.store.get(), ...patch}};
  }
}
