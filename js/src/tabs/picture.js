// A Bokeh figure in a tab. Sources of its glyphs may have a column `select`: a patch of the selection as JSON. What a hover
// tool of Bokeh would show is shown in the tooltip of all views instead: as text.
import {mountDocument} from '../figures/document.js';
import {paintFigures} from '../page/theme.js';
import {textElement} from '../shared/elements.js';
import {fitLabels} from './fitted_labels.js';

const CLICK_PX = 4;

/** @typedef {{lines: string[], patch: SelectionPatch | null}} Mark */

/** A figure of a tab. */
export class Picture {
  element = textElement('figure', 'nbp-picture', '');
  place = textElement('div', 'nbp-figure', '');
  /** @type {Map<BokehObject, [label: string, column: string | undefined][]>} */ hovers = new Map();
  /** @type {Host | null} */ host = null;
  gone = false;
  /** @type {ReturnType<typeof fitLabels>[]} what is written into boxes of each figure */ labels = [];

  /**
   * @param {Context} ctx
   * @param {PicturePart} part
   * @param {import('./walk.js').Pick} pick
   */
  constructor(ctx, {title, legend, document: json}, pick) {
    this.ctx = ctx;
    this.json = json;
    this.pick = pick;
    if (title || legend.length) this.element.append(captionOf(title, legend));
    this.place.setAttribute('role', 'img');
    this.place.setAttribute('aria-label', title || 'picture');
    this.element.append(this.place);
    this.listen();
  }

  /** @returns {BokehObject[]} */
  figures() {
    const models = [...(this.host?.doc._all_models.values() ?? [])];
    return models.filter((model) => model.type === 'Figure' || model.type === 'Plot');
  }

  theme() {
    if (this.host) paintFigures(this.host.doc, this.ctx.theme);
  }

  async mount() {
    const made = await mountDocument(this.ctx.host.Bokeh, JSON.parse(this.json), [this.place], (doc) => this.prepare(doc));
    if (this.gone) {
      made.dispose();
      return;
    }
    this.host = made;
    this.labels = this.figures().map((figure) => fitLabels(made.viewOf(figure)));
    this.theme();
  }

  /** @param {BokehObject} doc */
  prepare(doc) {
    for (const tool of doc._all_models.values()) {
      if (tool.type !== 'HoverTool' || !Array.isArray(tool.tooltips)) continue;
      const rows = tool.tooltips.map((/** @type {[string, string]} */ [label, text]) => [label, /^@\{?([^{}]+)\}?$/.exec(text)?.[1]]);
      for (const renderer of Array.isArray(tool.renderers) ? tool.renderers : []) this.hovers.set(renderer, rows);
      tool.setv({tooltips: null});
    }
  }

  /**
   * @param {BokehObject} renderer
   * @param {number} index
   */
  linesOf(renderer, index) {
    const {data} = renderer.data_source;
    return (this.hovers.get(renderer) ?? []).map(([label, column]) => {
      const text = String(data[column ?? '']?.[index] ?? '');
      return text && label ? `${text} ${label}` : text;
    });
  }

  /**
   * @param {BokehObject} figure
   * @param {BokehObject} renderer
   */
  viewOf(figure, renderer) {
    const view = this.host?.viewOf(figure);
    return view.renderer_view?.(renderer) ?? view.views?.find_one(renderer);
  }

  /**
   * Where the canvas of a figure is on the screen.
   * @param {BokehObject} figure
   * @returns {DOMRect}
   */
  canvasOf(figure) {
    return (this.host?.viewOf(figure)?.canvas_view?.el ?? this.place).getBoundingClientRect();
  }

  /**
   * The topmost mark under the pointer that has something to say.
   * @param {MouseEvent} event
   * @returns {Mark | null}
   */
  markAt(event) {
    for (const figure of this.figures()) {
      const rect = this.canvasOf(figure),
        point = {type: 'point', sx: event.clientX - rect.left, sy: event.clientY - rect.top};
      for (const renderer of [...figure.renderers].reverse()) {
        const data = renderer.data_source?.data,
          of = this.viewOf(figure, renderer);
        if (!data || !of || !(data.select || this.hovers.has(renderer))) continue;
        const index = of.hit_test(point)?.indices?.[0];
        if (index !== undefined)
          return {lines: this.linesOf(renderer, index), patch: data.select?.[index] ? JSON.parse(data.select[index]) : null};
      }
    }
    return null;
  }

  listen() {
    const {ctx, place} = this;
    place.addEventListener('pointermove', (event) => {
      const mark = this.host && this.markAt(event);
      place.classList.toggle('nbp-pickable', Boolean(mark?.patch));
      if (mark?.lines.some(Boolean)) ctx.tooltip.show(event, mark.lines);
      else ctx.tooltip.hide();
    });
    place.addEventListener('pointerleave', () => ctx.tooltip.hide());
    /** @type {[number, number] | null} */
    let pressed = null;
    place.addEventListener(
      'pointerdown',
      (event) => {
        pressed = [event.clientX, event.clientY];
      },
      true,
    );
    place.addEventListener('click', (event) => {
      if (!pressed || Math.hypot(event.clientX - pressed[0], event.clientY - pressed[1]) > CLICK_PX) return; // the end of a drag
      const mark = this.host && this.markAt(event);
      if (mark?.patch) this.pick(mark.patch);
    });
  }

  dispose() {
    this.gone = true;
    this.ctx.tooltip.hide();
    this.host?.dispose();
    this.host = null;
  }

  snapshot() {
    const renderers = this.figures().flatMap((f) => f.renderers.map((/** @type {BokehObject} */ r) => r.data_source?.get_length?.() ?? 0));
    return {drawn: Boolean(this.host), renderers, labels: this.labels.flatMap((painted) => painted())};
  }

  /**
   * Where a mark that selects something is on the screen.
   * @param {number} index
   * @returns {Point | null}
   */
  locate(index) {
    for (const figure of this.figures())
      for (const renderer of figure.renderers) {
        const data = renderer.data_source?.data;
        if (!data?.select?.[index]) continue;
        const [sx, sy] = this.viewOf(figure, renderer).glyph.scenterxy(index),
          rect = this.canvasOf(figure);
        return {x: rect.left + sx, y: rect.top + sy};
      }
    return null;
  }
}

/**
 * @param {string} title
 * @param {[string, string][]} legend
 */
function captionOf(title, legend) {
  const caption = textElement('figcaption', 'nbp-part-title', title),
    keys = textElement('span', 'nbp-keys', '');
  for (const [text, colour] of legend) {
    const key = textElement('span', '', text),
      swatch = document.createElement('i');
    if (/^#[0-9a-f]{6}$/i.test(colour)) swatch.style.background = colour;
    key.prepend(swatch);
    keys.append(key);
  }
  caption.append(keys);
  return caption;
}
