// Why a thread or stream is idle, waits or begins: asked at the pointer, or of the slice in focus.
import {element, textElement} from '../shared/elements.js';

const MOST_CAUSES = 6;

/** The box that says why. */
export class Why {
  /** What the pointer is over: a slice, or a track at a time. @type {Partial<WhyRequest> | null} */ pointed = null;

  /**
   * @param {Context} ctx
   * @param {HTMLElement} root
   */
  constructor(ctx, root) {
    this.ctx = ctx;
    this.box = element('div', 'nbp-help nbp-why', root);
    this.box.hidden = true;
    this.box.setAttribute('role', 'status');
  }

  /**
   * Note what the pointer is over; null where it is over no track.
   * @param {Partial<WhyRequest> | null} pointed
   */
  point(pointed) {
    this.pointed = pointed;
  }

  hide() {
    const was = !this.box.hidden;
    this.box.hidden = true;
    this.ctx.explain(null);
    return was;
  }

  /** Ask, and show what is answered. */
  async ask() {
    const {ctx} = this,
      focus = ctx.store.get().focus,
      asked = this.pointed ?? (focus == null ? null : {id: focus});
    if (!asked) {
      ctx.hint('point at a track, or click a slice, and press Y again');
      return;
    }
    try {
      this.show(await ctx.asker.ask({t: 'why', ...asked}));
    } catch (error) {
      ctx.trouble(/** @type {Error} */ (error));
    }
  }

  /** @param {WhyAnswer | NoWhy} answer */
  show(answer) {
    const {ctx, box} = this,
      [first, ...more] = answer.lines,
      close = textElement('button', 'nbp-link nbp-why-close', '✕');
    close.title = 'Close (Esc)';
    close.setAttribute('aria-label', 'close');
    close.addEventListener('click', () => this.hide());
    box.replaceChildren(close, textElement('p', 'nbp-why-first', first), ...more.map((line) => textElement('p', '', line)));
    if (answer.found) {
      const links = element('p', 'nbp-why-links', box),
        stretch = textElement('button', 'nbp-link', 'select this time');
      stretch.addEventListener('click', () => ctx.store.set({window: answer.window}, 'timeline'));
      links.append(stretch);
      for (const cause of answer.causes.slice(0, MOST_CAUSES)) {
        const go = textElement('button', 'nbp-link', `← ${ctx.labelOf(ctx.meta.nameList.indexOf(cause.name)) || cause.name}`);
        go.title = `go to ${cause.name}`;
        go.addEventListener('click', () => ctx.goTo(cause));
        links.append(go);
      }
      const python = element('p', 'nbp-note', box);
      python.append('in Python: ', textElement('code', '', answer.call));
    }
    box.hidden = false;
    ctx.explain(answer.found ? answer.data : null);
    ctx.count('why');
  }
}
