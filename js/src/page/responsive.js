// What follows the size of the page: in a narrow one the names of tracks lie over their rows, and axes have fewer ticks; in a
// low window table and phases are lower.
import {BYTES_PX} from '../charts/memory.js';
import {phasesHeight, tableHeight} from './skeleton.js';

const NARROW_PX = 560, // as dashboard.css has it
  NARROW_GUTTER_PX = 8,
  TICK_PX = 85;
const FIGURES = ['overview', 'timeline', 'memory'];

/**
 * So many ticks that their texts stand apart, and no more than the figure was made with.
 * @param {number} width of the plot area
 * @param {number} most
 */
export const ticksFor = (width, most) => Math.max(2, Math.min(most, Math.floor(width / TICK_PX)));

/**
 * The room left of the time axis; null where that of wide pages is right.
 * @param {number} width of the page
 */
export const narrowGutter = (width) => (width <= NARROW_PX ? NARROW_GUTTER_PX : null);

/** Fits the figures to the width of the page. */
export class ResponsiveLayout {
  /** @type {Map<BokehObject, number>} */ most = new Map();
  width = 0;

  /**
   * @param {Context} ctx
   * @param {HTMLElement} root
   */
  constructor(ctx, root) {
    this.ctx = ctx;
    this.root = root;
    this.wide = ctx.settings.gutter;
  }

  /** Take over the width that the page has now. */
  fit() {
    const {ctx, root, wide} = this,
      width = root.clientWidth;
    if (!width || width === this.width) return;
    this.width = width;
    const narrow = narrowGutter(width),
      gutter = narrow ?? wide;
    ctx.settings.gutter = gutter;
    root.classList.toggle('nbp-narrow', narrow !== null);
    root.style.setProperty('--nbp-gutter', `${gutter}px`);
    const figures = [...FIGURES, 'phases'].filter((name) => ctx.host.model(name)); // a page may have some of them
    for (const name of figures) if (FIGURES.includes(name)) ctx.host.model(name).min_border_left = gutter;
    this.fitMemory();
    for (const name of figures) this.thin(ctx.host.model(name), width - gutter);
  }

  /**
   * Take over the height that the window has now.
   * @param {number} height
   */
  fitHeight(height) {
    const {host, settings} = this.ctx,
      phases = host.model('phases');
    this.root.style.setProperty('--nbp-table', `${tableHeight(height)}px`);
    if (phases && settings.phases) phases.height = phasesHeight(settings.phases, height);
  }

  /** An open memory curve has an axis of bytes, also in a narrow page. */
  fitMemory() {
    const figure = this.ctx.host.model('memory');
    if (!figure) return;
    const axis = figure.left.some((/** @type {BokehObject} */ one) => one.visible);
    figure.min_border_left = Math.max(this.ctx.settings.gutter, axis ? BYTES_PX : 0);
  }

  /**
   * @param {BokehObject} figure
   * @param {number} width
   */
  thin(figure, width) {
    for (const {ticker} of [...figure.above, ...figure.below])
      for (const one of [ticker, ...(ticker?.tickers ?? [])]) {
        if (one?.desired_num_ticks === undefined) continue;
        const most = this.most.get(one) ?? one.desired_num_ticks;
        this.most.set(one, most);
        one.setv({desired_num_ticks: ticksFor(width, most)});
      }
  }
}
