// What the timeline draws a path of: all steps, or what has been asked about.

/** Shows the critical path, and hides it. */
export class CriticalPath {
  /** @type {PathAnswer | null} */ answer = null;
  /** That of what is explained. @type {PathColumns | null} */ explained = null;
  shown = false;

  /**
   * @param {Context} ctx
   * @param {import('../timeline/path.js').PathLayer} layer
   * @param {HTMLElement} button
   * @param {(text?: string) => void} say
   */
  constructor(ctx, layer, button, say) {
    this.ctx = ctx;
    this.layer = layer;
    this.button = button;
    this.say = say;
  }

  draw() {
    this.button.setAttribute('aria-pressed', String(this.shown));
    this.layer.show(this.explained ?? (this.shown ? (this.answer?.data ?? null) : null));
  }

  /** Show it, or hide it again. */
  async toggle() {
    const {ctx} = this;
    if (this.shown) {
      this.hide();
      return;
    }
    try {
      if (!this.answer) ctx.hint('working out the critical path …');
      const answer = this.answer ?? (await ctx.asker.ask({t: 'path'}));
      if (!answer.found) {
        ctx.hint(answer.text);
        return;
      }
      this.answer = answer;
      this.shown = true;
      ctx.hint('');
      this.say(`${answer.text} · in Python: ${answer.call}`);
      this.draw();
      ctx.count('path');
    } catch (error) {
      ctx.hint('');
      ctx.trouble(/** @type {Error} */ (error));
    }
  }

  /**
   * Show the path of what is explained in place of that of the steps; null: no longer.
   * @param {PathColumns | null} segments
   */
  explain(segments) {
    if (segments === this.explained) return;
    this.explained = segments;
    this.draw();
  }

  hide() {
    const was = this.shown;
    this.shown = false;
    if (was) {
      this.say();
      this.draw();
    }
    return was;
  }
}
