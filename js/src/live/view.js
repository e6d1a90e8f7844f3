// A recording that runs, in the output of its cell.
import {element, textElement} from '../shared/elements.js';
import {phaseShares, progressText, stateText, stepsText} from './texts.js';

/** @typedef {import('./texts.js').LiveState} LiveState */

const WAITS = 'Messages of this page wait until the cell has ended: interrupt the cell to end both, what was recorded is kept.';
const CONTROL = 'notebook_prof_live',
  HEARD_MS = 1000,
  MOST_ATTEMPTS = 5;

/**
 * @typedef {object} Model
 * @property {(name: string) => any} get
 * @property {(message: unknown) => void} send
 * @property {{kernel?: any}} [widget_manager]
 */

/**
 * Send by the kernel's control channel, which a busy kernel reads, where the front-end gives access to it. By the widget's comm too.
 * @param {Model} model
 * @param {{t: 'hello' | 'stop'}} content
 */
function send(model, content) {
  model.send(content);
  const kernel = model.widget_manager?.kernel;
  if (typeof kernel?.sendControlMessage !== 'function') return;
  const header = {
    msg_id: `${CONTROL}-${Math.random()}`,
    msg_type: CONTROL,
    session: kernel.clientId,
    username: kernel.username,
    version: '5.4',
    date: new Date().toISOString(),
  };
  kernel.sendControlMessage({channel: 'control', header, parent_header: {}, metadata: {}, content, buffers: []}, false);
}

/** One display. */
class LiveView {
  host = textElement('div', 'nbp-live', '');
  /** @param {Model} model */
  constructor(model) {
    this.model = model;
    this.host.setAttribute('role', 'group');
    this.host.setAttribute('aria-label', 'The recording of this cell');
    const head = element('div', 'nbp-live-head', this.host);
    this.state = element('span', 'nbp-live-state', head);
    this.progress = element('span', 'nbp-live-progress', head);
    this.button = /** @type {HTMLButtonElement} */ (element('button', 'nbp-live-stop', head));
    this.button.textContent = 'Stop recording';
    this.button.title = 'Ends the recording with this step; the cell goes on.';
    this.button.disabled = true;
    this.button.addEventListener('click', () => this.stop());
    this.note = element('div', 'nbp-live-note', this.host);
    this.bars = element('div', 'nbp-live-steps', this.host);
    this.steps = element('div', 'nbp-live-note', this.host);
    this.phases = element('div', 'nbp-live-phases', this.host);
    this.legend = element('div', 'nbp-live-legend', this.host);
    this.lines = element('div', 'nbp-live-lines', this.host);
  }

  /** Ask for the end of the recording. */
  stop() {
    send(this.model, {t: 'stop'});
    this.button.disabled = true;
    this.button.textContent = 'Stops with this step …';
  }

  /**
   * Offer the button once the kernel has heard of this page; say why not, where it does not. JupyterLab makes the subshell for a
   * page's first comm after it was opened: what is sent by comm before that waits until the cell has ended.
   * @param {number} attempt
   */
  greet(attempt = 0) {
    if (this.model.get('heard')) return;
    if (attempt === MOST_ATTEMPTS) {
      this.note.textContent = WAITS;
      return;
    }
    send(this.model, {t: 'hello'});
    this.timer = setTimeout(() => this.greet(attempt + 1), HEARD_MS);
  }

  /** Draw what was told last. */
  draw() {
    const state = /** @type {LiveState} */ (this.model.get('state'));
    this.host.dataset.state = state.state;
    this.state.textContent = stateText(state);
    this.progress.textContent = progressText(state);
    this.steps.textContent = stepsText(state);
    this.#drawButton(state);
    this.#drawSteps(state);
    this.#drawPhases(state);
    this.#drawLines(state);
  }

  /** @param {LiveState} state */
  #drawButton(state) {
    this.button.hidden = state.state === 'after' || !this.model.get('heard');
    if (this.model.get('heard')) {
      this.note.textContent = '';
      if (this.button.textContent === 'Stop recording') this.button.disabled = false;
    }
  }

  /** @param {LiveState} state */
  #drawSteps(state) {
    const most = Math.max(...state.last, 1);
    this.bars.hidden = !state.last.length;
    this.bars.replaceChildren(
      ...state.last.map((time) => {
        const bar = textElement('i', '', '');
        bar.style.height = `${Math.max((100 * time) / most, 4)}%`;
        return bar;
      }),
    );
  }

  /** @param {LiveState} state */
  #drawPhases(state) {
    const shares = phaseShares(state);
    this.phases.replaceChildren(
      ...shares.map(({name, share}) => {
        const part = textElement('i', `nbp-live-${name}`, '');
        part.style.flexGrow = String(share);
        return part;
      }),
    );
    this.legend.replaceChildren(
      ...shares.map(({name, share}) => {
        const label = textElement('span', '', '');
        label.append(textElement('i', `nbp-live-${name}`, ''), `${name} ${Math.round(100 * share)} %`);
        return label;
      }),
    );
  }

  /** @param {LiveState} state */
  #drawLines(state) {
    this.lines.replaceChildren(
      ...state.lines.map(([line, text, share, phase]) => {
        const row = textElement('div', '', ''),
          bar = element('span', 'nbp-live-bar', row);
        bar.append(textElement('i', `nbp-live-${phase}`, ''));
        /** @type {HTMLElement} */ (bar.firstChild).style.width = `${100 * share}%`;
        row.prepend(textElement('span', 'nbp-live-line', String(line)));
        row.append(textElement('span', 'nbp-live-share', `${(100 * share).toFixed(0)} %`), textElement('code', '', text));
        return row;
      }),
    );
  }

  /** Say nothing more. */
  end() {
    clearTimeout(this.timer);
  }
}

/** The widget: anywidget calls `render` for each display. */
export const liveWidget = {
  /** @param {{model: any, el: HTMLElement}} given */
  render({model, el}) {
    const view = new LiveView(model),
      draw = () => view.draw();
    el.append(view.host);
    model.on('change:state', draw);
    model.on('change:heard', draw);
    view.draw();
    view.greet();
    return () => {
      model.off('change:state', draw);
      model.off('change:heard', draw);
      view.end();
    };
  },
};
