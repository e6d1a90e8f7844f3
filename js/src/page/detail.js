// The line about the slice in focus.
import {textElement} from '../shared/elements.js';
import {Roving} from '../shared/roving.js';
import {formatInstant, formatTime} from '../shared/units.js';

const MOST_ARGUMENTS = 6;
const MOST_LINKS = 4;
/** Facts that are never cut. */
const SHORT = new Set(['took', 'at', 'self', 'step', 'phase']);
const TIP =
  'Click a slice to inspect it, double-click to select all of its name. Drag to pan, Shift+drag to select a time. Press ? for all keys.';

/** Shows the slice in focus, and asks for it. */
export class Detail {
  /** @type {SliceDetail | null} */ shown = null;
  tip = TIP;

  /**
   * @param {Context} ctx
   * @param {HTMLElement} box
   * @param {import('../timeline/timeline.js').Timeline} timeline
   */
  constructor(ctx, box, timeline) {
    this.ctx = ctx;
    this.box = box;
    this.timeline = timeline;
    box.setAttribute('role', 'group');
    box.setAttribute('aria-label', 'slice in focus');
    this.roving = new Roving(box, 'button');
    this.draw();
  }

  current = () => this.shown;

  /**
   * What to say while no slice is in focus; by default how to put one there.
   * @param {string} [text]
   */
  say(text = TIP) {
    this.tip = text;
    this.draw();
  }

  draw() {
    const {shown, box} = this;
    box.tabIndex = shown ? -1 : 0; // it scrolls: the keyboard reaches it, or a button in it
    if (!shown) {
      box.replaceChildren(textElement('span', 'nbp-note', this.tip));
      return;
    }
    const name = textElement('strong', '', shown.name),
      only = textElement('button', 'nbp-link', 'select this name'),
      why = textElement('button', 'nbp-link', 'why?');
    why.title = 'Why it took so long, or began so late (Y)';
    why.addEventListener('click', () => this.ctx.why());
    name.title = shown.name;
    only.addEventListener('click', () => this.ctx.store.set({name: [shown.name]}, 'timeline'));
    box.replaceChildren(name, ...factsOf(shown), ...this.linksOf(shown), ...this.restOf(shown), only, why);
    this.roving.settle();
  }

  /** @param {SliceDetail} shown */
  linksOf(shown) {
    return (shown.links ?? []).slice(0, MOST_LINKS).map((link) => {
      const go = textElement('button', 'nbp-link', `${link.direction === 'to' ? '→' : '←'} ${link.name}`);
      go.title = `${link.kind}: go to it (G)\n${formatTime(link.dur)} at ${formatInstant(link.ts, Math.max(link.dur, 1) / 10)}`;
      go.addEventListener('click', () => this.ctx.goTo(link));
      return go;
    });
  }

  /**
   * The stack, and what this page does not hold.
   * @param {SliceDetail} shown
   */
  restOf(shown) {
    const parts = [];
    if (shown.stack?.length) {
      const stack = textElement('span', 'nbp-fact nbp-long', shown.stack[shown.stack.length - 1]);
      stack.title = shown.stack.join('\n');
      parts.push(stack);
    }
    for (const [what, sentence] of [
      ['arguments', shown.left],
      ['stack', this.ctx.settings.absent],
    ]) {
      if (!what || !sentence) continue;
      const absent = textElement('span', 'nbp-absent-part', what);
      absent.title = sentence;
      parts.push(absent);
    }
    return parts;
  }

  /** Ask for the slice in focus. */
  async update() {
    const {ctx, timeline} = this,
      id = ctx.store.get().focus;
    if (id == null) {
      this.shown = null;
      timeline.setDetail(null);
      this.draw();
      return;
    }
    try {
      const answer = await ctx.asker.ask({t: 'detail', id});
      if (ctx.store.get().focus !== id) return;
      this.shown = answer.found ? answer : null;
    } catch (error) {
      ctx.trouble(/** @type {Error} */ (error));
      this.shown = null;
    }
    timeline.setDetail(this.shown);
    this.draw();
    ctx.count('detail');
  }
}

/**
 * What is known of a slice, each with its label.
 * @param {SliceDetail} shown
 * @param {number} origin from where instants are counted
 */
export function factsOf(shown, origin = 0) {
  /** @type {[string, string | number | null | undefined][]} */
  const facts = [
    ['took', formatTime(shown.dur, 4)],
    ['at', formatInstant(shown.ts - origin, Math.max(shown.dur, 1) / 100)],
    ['self', formatTime(shown.self_ns, 4)],
    ['step', shown.step],
    ['phase', shown.phase],
    ['on', shown.track_name],
    ['line', shown.line],
    ['module', shown.module],
    ['shapes', shown.shapes],
    ['in', shown.parent?.name === shown.line ? '' : shown.parent?.name],
    ...(shown.arguments ?? []).slice(0, MOST_ARGUMENTS),
  ];
  const parts = facts
    .filter(([, value]) => value !== null && value !== undefined && value !== '')
    .map(([label, value]) => {
      const fact = textElement('span', SHORT.has(label) ? 'nbp-fact' : 'nbp-fact nbp-long', '');
      fact.append(textElement('em', '', label), ` ${value}`);
      fact.title = String(value);
      fact.dataset.fact = label;
      return fact;
    });
  if (shown.arguments?.length > MOST_ARGUMENTS) {
    const more = textElement('span', 'nbp-fact', `… ${shown.arguments.length - MOST_ARGUMENTS} more`);
    more.title = shown.arguments.map(([name, value]) => `${name} ${value}`).join('\n');
    parts.push(more);
  }
  return parts;
}
