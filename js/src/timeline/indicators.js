// Sentences at the edges of the timeline: how many selected slices are out of sight there. A click goes to the nearest.
import {activeElement, element, textElement} from '../shared/elements.js';
import {Roving} from '../shared/roving.js';
import {DIMENSIONS} from '../shared/store.js';
import {offscreen} from './offscreen.js';

const SETTLE_MS = 120;
/** @type {Set<string>} dimensions that select no slices, or all of a time or of a rank */
const WHOLE = new Set(['focus', 'group', 'window', 'rank']);
/** @type {Record<import('./offscreen.js').Side, string>} */
const ARROWS = {above: '↑', before: '←', after: '→', folded: '▸', below: '↓'};
const FROM_TRACKS = new Set(['timeline', 'tracks']); // what is selected there is in sight
const SIDES = /** @type {import('./offscreen.js').Side[]} */ (Object.keys(ARROWS));

/** Off-screen indicators of what is selected. */
export class Indicators {
  /** @type {{answer: SelectedAnswer, a: number, b: number} | null} */ have = null;
  /** @type {import('./offscreen.js').Indicator[]} */ shown = [];
  inSight = 0;
  settleTimer = 0;
  /** Whether a selection made elsewhere has yet to be scrolled into view. */ seeking = false;

  /** @param {import('./timeline.js').Timeline} timeline */
  constructor(timeline) {
    const {ctx} = (this.timeline = timeline);
    this.ctx = ctx;
    this.box = element('div', 'nbp-offscreen', timeline.element);
    this.box.setAttribute('role', 'group');
    this.box.setAttribute('aria-label', 'selected slices out of sight');
    this.box.hidden = true;
    this.buttons = new Map(SIDES.map((side) => [side, this.button(side)]));
    this.roving = new Roving(this.box, 'button');
    this.channel = ctx.asker.channel(
      (must) => (must || this.selects() || this.seeksRank() ? {t: 'selected', a: ctx.range.start, b: ctx.range.end} : null),
      (answer, {a, b}, stale) => {
        if (stale) return; // another one is on its way
        this.have = {answer, a, b};
        this.draw();
        this.seek();
        if (!this.selects()) {
          this.have = null;
          this.draw();
        }
        ctx.count('indicators');
      },
      (error) => ctx.trouble(error),
      DIMENSIONS,
    );
  }

  /** @param {import('./offscreen.js').Side} side */
  button(side) {
    const made = element('button', `nbp-offscreen-${side}`, this.box),
      arrow = textElement('span', 'nbp-offscreen-arrow', ARROWS[side]);
    made.hidden = true;
    arrow.setAttribute('aria-hidden', 'true');
    made.append(arrow, ...['number', 'selected', 'more'].map((part) => textElement('span', `nbp-offscreen-${part}`, '')));
    made.addEventListener('click', () => this.go(side));
    // gestures on it are none of the timeline's
    for (const type of ['pointerdown', 'pointermove', 'dblclick']) made.addEventListener(type, (event) => event.stopPropagation());
    made.addEventListener('pointerenter', () => this.ctx.tooltip.hide());
    return made;
  }

  /** Whether some slices are selected, and not all of a time or of some ranks: those are marked as a whole. */
  selects() {
    const now = this.ctx.store.get();
    return DIMENSIONS.some((key) => !WHOLE.has(key) && now[key] != null);
  }

  /** Whether a rank, of which nothing is said, has yet to be scrolled to. */
  seeksRank() {
    return this.seeking && this.ctx.store.get().rank != null;
  }

  /**
   * The selection or the visible time has changed, so earlier counts are void.
   * @param {string} [origin] of a change that filters slices
   */
  changed(origin) {
    if (origin !== undefined) this.seeking = !FROM_TRACKS.has(origin);
    this.have = null;
    this.draw();
    this.ask();
  }

  ask() {
    this.channel.run();
  }

  /** Scroll to a selection made elsewhere if none of it is visible. */
  seek() {
    const hidden = this.shown.find(({side}) => side === 'above' || side === 'below' || side === 'folded');
    if (this.seeking && !this.inSight && hidden) this.timeline.showRow(hidden.row);
    this.seeking = false;
  }

  /** Another time is shown: what is before and after it is asked for when it stands still. */
  moved() {
    clearTimeout(this.settleTimer);
    if (!this.selects()) return;
    this.draw();
    this.settleTimer = setTimeout(() => this.ask(), SETTLE_MS);
  }

  draw() {
    const {box, have, timeline} = this,
      {start, end} = this.ctx.range,
      {laneRange} = timeline;
    const found = have && offscreen(have.answer, timeline.lanes, {
      top: laneRange.end,
      bottom: laneRange.start,
      time: have.a === start && have.b === end ? [start, end] : null,
    });
    this.shown = found?.indicators ?? [];
    this.inSight = found?.inSight ?? 0;
    const focused = activeElement(),
      held = box.contains(focused);
    box.hidden = !this.shown.length;
    box.style.top = `${this.ctx.settings.axis + timeline.lanes.stuck() * this.ctx.settings.lane}px`;
    for (const [side, button] of this.buttons) this.write(button, this.shown.find((one) => one.side === side));
    this.roving.settle();
    if (held && focused?.hidden) (this.roving.items()[0] ?? timeline.element.closest('.nbp'))?.focus({preventScroll: true});
  }

  /**
   * @param {HTMLElement} button
   * @param {import('./offscreen.js').Indicator | undefined} said
   */
  write(button, said) {
    button.hidden = !said;
    if (!said) return;
    const label = `${said.parts.join('')}: ${said.action}`;
    if (button.title === label) return;
    said.parts.forEach((text, k) => (button.children[k + 1].textContent = text));
    button.title = label;
    button.setAttribute('aria-label', label);
  }

  /** @param {import('./offscreen.js').Side} side */
  go(side) {
    const target = this.shown.find((one) => one.side === side);
    if (!target) return;
    const {start, end} = this.ctx.range,
      half = (end - start) / 2;
    this.timeline.showRow(target.row);
    if (target.time !== null) this.ctx.setView(target.time - half, target.time + half);
  }

  /** What it says, for tests and tours. */
  snapshot() {
    return {inSight: this.inSight, ...Object.fromEntries(this.shown.map(({side, count}) => [side, count]))};
  }

  close() {
    clearTimeout(this.settleTimer);
    this.channel.close();
  }
}
