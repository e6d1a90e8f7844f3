// The live view: BokehJS comes over the comm once a page, questions and selections go to the kernel.
import {markDark} from '../page/darkness.js';
import {askedAhead} from '../page/opening.js';
import {textElement} from '../shared/elements.js';
import {loadBokeh} from './bokeh.js';
import {lineTo, patiently} from './line.js';

const STATIC_AFTER_MS = 8000; // then a reader gets the static picture, until the live view is there
const ATTACHED_MS = 30;
const FETCHED_AFTER_MS = 300; // the first picture goes before the recording

/**
 * @typedef {import('../page/mount.js').Mounting} Mounting
 * @typedef {(mounting: Mounting) => Promise<() => void>} Mount
 * @typedef {{document: string, settings: Settings}} Begun
 * @typedef {Transport & {fetch?: () => void}} Answers
 * @typedef {(settings: Settings, model: import('./line.js').WidgetModel, el: HTMLElement, line: import('./line.js').Line) => () => void} Beside
 *   what goes on beside the views, outside of their element; gives a function that ends it
 */

/**
 * Figures and facts of a dashboard, which the kernel makes while the page loads BokehJS; asked again where nothing comes.
 * @param {Transport} line
 * @returns {Promise<Begun>}
 */
async function begin(line) {
  const asked = [];
  for (;;) {
    asked.push(line.request({t: 'start'}));
    const answer = await patiently(...asked);
    if (answer?.content.failed) throw new Error(answer.content.failed);
    if (answer) return /** @type {Begun} */ (/** @type {unknown} */ (answer.content));
  }
}

/**
 * The static picture beside the widget is for readers without a kernel: it hides while the live view is there or on its way,
 * also where it comes later than that.
 * @param {string} uid
 */
function hideStatic(uid) {
  const mark = `.nbp-static-${CSS.escape(uid)}`,
    sheet = document.createElement('style');
  // two rules: a browser that does not know :has() drops the one with it
  sheet.textContent = `${mark} { display: none !important }\n.jp-OutputArea-child:has(${mark}) { display: none !important }`;
  document.head.append(sheet);
  return () => sheet.remove();
}

/**
 * Do something once when the element comes into sight: what nobody looks at is not fetched.
 * @param {HTMLElement} el
 * @param {() => void} act
 */
function onceSeen(el, act) {
  const watching = new IntersectionObserver((entries) => {
    if (!entries.some(({isIntersecting}) => isIntersecting)) return;
    watching.disconnect();
    setTimeout(act, FETCHED_AFTER_MS);
  });
  watching.observe(el);
  return () => watching.disconnect();
}

/** One display of a widget. */
class View {
  dispose = () => {};
  endBeside = () => {};
  stopWatching = () => {};
  gone = false;
  /** @type {() => void} */ end = () => {};
  /** @type {Promise<void>} */ closed = new Promise((resolve) => (this.end = resolve));
  host = textElement('div', 'nbp-host', '');
  waiting = textElement('div', 'nbp-waiting', 'loading the views …');

  /**
   * @param {import('./line.js').WidgetModel} model
   * @param {HTMLElement} el
   * @param {Mount} mount
   * @param {boolean} needsBokeh whether `mount` takes BokehJS itself; else a promise of it, and asks for its facts meanwhile
   * @param {Beside} beside
   * @param {(line: import('./line.js').Line) => Answers} answersTo who answers, chosen once
   */
  constructor(model, el, mount, needsBokeh, beside, answersTo) {
    this.model = model;
    this.el = el;
    this.mount = mount;
    this.needsBokeh = needsBokeh;
    this.beside = beside;
    this.line = lineTo(model);
    this.answers = answersTo(this.line);
    /** @type {Settings} */
    this.settings = model.get('settings');
    el.append(this.host);
    this.host.append(this.waiting);
    this.show = hideStatic(this.settings.uid);
    this.late = setTimeout(() => this.show(), STATIC_AFTER_MS);
    this.start()
      .catch((error) => {
        this.host.textContent = `The views could not be started: ${error.message}`;
        this.show();
      })
      .finally(() => clearTimeout(this.late));
  }

  async start() {
    let pictured = () => {};
    /** @type {Promise<void>} */
    const picture = new Promise((done) => (pictured = done));
    const {line, settings, model, host} = this,
      loading = loadBokeh(line, settings.bokeh, this.closed, this.needsBokeh ? undefined : picture),
      drawn = model.get('document');
    loading.catch(() => {}); // told below, by who needs it
    const beginning = drawn ? {document: drawn, settings} : begin(line),
      asker = drawn ? undefined : askedAhead(this.answers), // in the same message
      begun = await beginning;
    while (!host.isConnected && !this.gone) await new Promise((done) => setTimeout(done, ATTACHED_MS)); // BokehJS mounts only into the page
    if (this.gone) return;
    markDark(host);
    const Bokeh = this.needsBokeh ? await loading : loading;
    this.waiting.remove();
    this.dispose = await this.mount({
      Bokeh,
      el: host,
      document: JSON.parse(begun.document),
      settings: begun.settings,
      transport: this.answers,
      asker,
      store: line.store,
      pictured,
    });
    if (this.gone) {
      this.dispose();
      return;
    }
    this.show();
    this.show = hideStatic(settings.uid);
    this.el.classList.add('nbp-ready');
    const {fetch} = this.answers;
    if (fetch) this.stopWatching = onceSeen(host, () => fetch.call(this.answers));
    this.endBeside = this.beside(begun.settings, model, this.el, line);
  }

  close() {
    this.gone = true;
    this.end();
    this.endBeside();
    this.stopWatching();
    clearTimeout(this.late);
    this.dispose();
    this.show();
    this.el.replaceChildren();
  }
}

/**
 * Make the module that anywidget loads.
 * @param {Mount} mount
 * @param {boolean} needsBokeh see `View`
 * @param {Beside} beside
 * @param {(line: import('./line.js').Line) => Answers} answersTo who answers: the line to the kernel, or the page where it can
 */
export const createWidget = (mount, needsBokeh, beside = () => () => {}, answersTo = (line) => line) => ({
  /** @param {{model: import('./line.js').WidgetModel, el: HTMLElement}} given */
  async render({model, el}) {
    const view = new View(model, el, mount, needsBokeh, beside, answersTo);
    return () => view.close();
  },
});
