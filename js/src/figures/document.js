// Puts the figures of a Bokeh document into the page, mends what BokehJS 3.x does badly in a notebook, and takes all away
// again.
import {createFrames, paintInFrames} from './frames.js';
import {quietSheets, quietStyles} from './quiet.js';

export const FONT = '11px helvetica'; // as figures/timeline.py has it: labels are measured before they are drawn

/**
 * Mount the roots of a document into the elements.
 * @param {BokehObject} Bokeh
 * @param {DocumentJson} json
 * @param {HTMLElement[]} elements
 * @param {(doc: BokehObject) => void} prepare
 * @returns {Promise<Host>}
 */
export async function mountDocument(Bokeh, json, elements, prepare = () => {}) {
  quietStyles(Bokeh);
  quietSheets(Bokeh);
  const {Document} = Bokeh.require('document');
  const doc = Document.from_json(json);
  doc.nbp = true; // other figures of the page may use the same BokehJS
  prepare(doc);
  const viewport = watchViewport();
  /** @type {BokehObject} */
  let views;
  try {
    views = await Bokeh.embed.add_document_standalone(doc, elements[0], elements);
  } finally {
    viewport.stopWatching();
  }
  elements.forEach(skipByTab);
  const model = (/** @type {string} */ name) => doc.get_model_by_name(name);
  const viewOf = (/** @type {BokehObject} */ figure) => views.find_one?.(figure) ?? Bokeh.index.find_one(figure);
  const frames = createFrames();
  for (const root of doc.roots()) {
    const view = viewOf(root);
    if (view?.canvas_view) paintInFrames(view, frames);
  }
  function dispose() {
    frames.close();
    doc.clear();
    views.clear?.();
    viewport.removeListeners();
    const i = Bokeh.documents.indexOf(doc); // BokehJS keeps every document for ever
    if (i >= 0) Bokeh.documents.splice(i, 1);
  }
  return {Bokeh, doc, model, viewOf, dispose, frames};
}

/** bokeh#15290: PlotView never removes its visualViewport listener, so the whole document leaks. */
function watchViewport() {
  const viewport = window.visualViewport;
  /** @type {[string, EventListenerOrEventListenerObject | null, AddEventListenerOptions | boolean | undefined][]} */
  const listeners = [];
  if (viewport)
    Object.assign(viewport, {
      /**
       * @param {string} type
       * @param {EventListenerOrEventListenerObject | null} listener
       * @param {AddEventListenerOptions | boolean} [options]
       */
      addEventListener(type, listener, options) {
        listeners.push([type, listener, options]);
        return EventTarget.prototype.addEventListener.call(viewport, type, listener, options);
      },
    });
  return {
    stopWatching() {
      if (viewport) Reflect.deleteProperty(viewport, 'addEventListener');
    },
    removeListeners() {
      for (const [type, listener, options] of listeners) viewport?.removeEventListener(type, /** @type {EventListener} */ (listener), options);
    },
  };
}

/**
 * A figure is a stop of the Tab key without anything to do there: the keys belong to the page around it.
 * @param {Element | ShadowRoot} element
 */
function skipByTab(element) {
  for (const inner of /** @type {NodeListOf<HTMLElement>} */ (element.querySelectorAll('*'))) {
    if (inner.shadowRoot) skipByTab(inner.shadowRoot);
    if (inner.tabIndex === 0) inner.tabIndex = -1;
  }
}

/**
 * Tick texts without CustomJSTickFormatter, whose code is eval'ed and so is refused by a strict CSP.
 * @param {BokehFormatter} formatter
 * @param {(ticks: number[]) => string[]} write
 */
export function formatTicks(formatter, write) {
  formatter.doFormat = (ticks) => write(ticks);
}

/**
 * What the renderer of a data source shows is painted by `paint(pen)`, clipped to the plot area, in BokehJS's own order.
 * Gives a function that asks for it.
 * @param {BokehObject} view
 * @param {string} source
 * @param {(pen: CanvasRenderingContext2D) => void} paint
 * @returns {() => void}
 */
export function paintSource(view, source, paint) {
  const found = [...view.computed_renderer_views].find(({model}) => model.data_source?.name === source);
  found._paint = (/** @type {CanvasRenderingContext2D | undefined} */ pen) => paint(pen ?? found.layer.ctx);
  return () => found.request_paint();
}

/**
 * Few values into a data source, unless they are there already: BokehJS takes them in, and paints all anew, each time.
 * @param {BokehObject} source
 * @param {Record<string, unknown[]>} data
 */
export function renew(source, data) {
  const text = JSON.stringify(data);
  if (source.nbpText === text) return;
  source.nbpText = text;
  source.data = data;
}

/**
 * Where a figure's plot area is on the screen.
 * @param {BokehObject} view
 * @param {Element} element
 */
export function frameOf(view, element) {
  const box = view.frame.bbox,
    rect = element.getBoundingClientRect();
  /** @type {{left: number, top: number, width: number, height: number}} */
  const found = {left: rect.left + box.left, top: rect.top + box.top, width: Math.max(1, box.width), height: Math.max(1, box.height)};
  return found;
}
