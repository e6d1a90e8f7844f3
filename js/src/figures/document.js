// Puts the four figures into the page, mends what BokehJS 3.x does badly in a notebook, and takes all away again.
const FONT = '11px helvetica'; // as figures/timeline.py has it: labels are measured before they are drawn

// bokeh#15286: every visual asks getComputedStyle on every paint, and so does the base font size of every text
// label: a third of the time while panning in JupyterLab's big page. Our colours are properties, never CSS.
function quietStyles(Bokeh) {
  const visuals = Bokeh.require('core/visuals/visual').VisualProperties.prototype;
  if (visuals.__nbp) return;
  visuals.__nbp = true;
  if (visuals._get_css_value) visuals._get_css_value = () => '';
  const plot = Bokeh.require('models/plots/plot_canvas').PlotView.prototype;
  const base = Object.getOwnPropertyDescriptor(plot, 'base_font_size');
  if (base?.get)
    Object.defineProperty(plot, 'base_font_size', {
      configurable: true,
      get() {
        return (this.__nbpFont ??= base.get.call(this));
      },
    });
}

async function mountDocument(Bokeh, json, elements, prepare = () => {}) {
  quietStyles(Bokeh);
  quietSheets(Bokeh);
  const {Document} = Bokeh.require('document');
  const doc = Document.from_json(json);
  doc.nbp = true; // other figures of the page may use the same BokehJS
  prepare(doc);
  // bokeh#15290: PlotView never removes its visualViewport listener, so the whole document leaks
  const viewport = window.visualViewport,
    listeners = [];
  if (viewport)
    viewport.addEventListener = function (type, listener, options) {
      listeners.push([type, listener, options]);
      return EventTarget.prototype.addEventListener.call(viewport, type, listener, options);
    };
  let views;
  try {
    views = await Bokeh.embed.add_document_standalone(doc, elements[0], elements);
  } finally {
    if (viewport) delete viewport.addEventListener;
  }
  elements.forEach(skipByTab);
  const model = (name) => doc.get_model_by_name(name);
  const viewOf = (figure) => views.find_one?.(figure) ?? Bokeh.index.find_one(figure);
  const frames = createFrames();
  for (const root of doc.roots()) {
    const view = viewOf(root);
    if (view?.canvas_view) paintInFrames(view, frames);
  }
  function dispose() {
    frames.close();
    doc.clear();
    views.clear?.();
    for (const [type, listener, options] of listeners) viewport.removeEventListener(type, listener, options);
    const i = Bokeh.documents.indexOf(doc); // BokehJS keeps every document for ever
    if (i >= 0) Bokeh.documents.splice(i, 1);
  }
  return {Bokeh, doc, model, viewOf, dispose, frames, ndarray: Bokeh.require('core/util/ndarray').ndarray};
}

// A figure is a stop of the Tab key without anything to do there: the keys belong to the page around it.
function skipByTab(element) {
  for (const inner of element.querySelectorAll('*')) {
    if (inner.shadowRoot) skipByTab(inner.shadowRoot);
    if (inner.tabIndex === 0) inner.tabIndex = -1;
  }
}

// Tick texts without CustomJSTickFormatter, whose code is eval'ed and so is refused by a strict CSP.
function formatTicks(formatter, write) {
  formatter.doFormat = (ticks) => write(ticks);
}

// Every renderer writes its place into a style sheet of its own on every paint, the same one again and again: each time
// the browser styles, lays out and layers JupyterLab's whole page. Nothing of ours hangs on the place of a glyph or a box.
function quietSheets(Bokeh) {
  const sheet = Bokeh.require('core/dom').InlineStyleSheet?.prototype,
    renderer = Bokeh.require('models/renderers/renderer').RendererView.prototype;
  if (!sheet?._update || sheet.__nbp) return;
  sheet.__nbp = true;
  const update = sheet._update,
    place = renderer.update_position;
  sheet._update = function (css) {
    if (this.__nbpCss === css) return;
    this.__nbpCss = css;
    update.call(this, css);
  };
  if (place)
    renderer.update_position = function () {
      if (this.panel != null || !this.model.document?.nbp) place.call(this);
    };
}

// BokehJS paints at most every 17 ms by the clock, which is often every second frame, and what changes in a frame is painted
// in the next. Ours are painted once a frame, after everything that belongs to the frame has been done.
// What can wait takes its turn, one a frame, after what the hand is at.
const MOST_PUT_OFF = 2; // frames
function createFrames() {
  const first = new Set(),
    paints = new Set(),
    turns = [];
  let id = 0,
    putOff = 0;
  function take() {
    if (!turns.length) return;
    if (!paints.size || putOff++ >= MOST_PUT_OFF) {
      putOff = 0;
      turns.shift()();
    }
    if (turns.length) id ||= requestAnimationFrame(flush);
  }
  function flush() {
    cancelAnimationFrame(id);
    id = 0;
    take();
    for (const waiting of [first, paints])
      for (const act of waiting) {
        waiting.delete(act);
        act();
      }
  }
  const into = (waiting) => (act) => {
    waiting.add(act);
    id ||= requestAnimationFrame(flush);
  };
  function turn(act) {
    if (document.hidden) {
      act(); // no frame comes
      return;
    }
    turns.push(act);
    id ||= requestAnimationFrame(flush);
  }
  return {before: into(first), paint: into(paints), turn, flush, close: () => {
    cancelAnimationFrame(id);
    turns.length = 0;
    first.clear();
    paints.clear();
  }};
}

function paintInFrames(view, frames) {
  const paint = () => {
    if (!view.is_destroyed) view.repaint();
  };
  view.throttled_paint = () => {
    frames.paint(paint);
    return Promise.resolve();
  };
  // a canvas that is wiped is copied to the screen: the upper one is, only while something is on it
  const {overlays} = view.canvas_view,
    wipe = overlays.clear;
  let used = true;
  overlays.clear = function () {
    const using = [...view.computed_renderer_views].some(({model}) => model.level === 'overlay' && model.visible);
    if (using || used) wipe.call(this);
    used = using;
  };
}

// What the renderer of a data source shows is painted by `paint(ctx)`, clipped to the plot area, in BokehJS's own order.
// Gives a function that asks for it.
function paintSource(view, source, paint) {
  const found = [...view.computed_renderer_views].find(({model}) => model.data_source?.name === source);
  found._paint = (ctx) => paint(ctx ?? found.layer.ctx);
  return () => found.request_paint();
}

// Few values into a data source, unless they are there already: BokehJS takes them in, and paints all anew, each time.
function renew(source, data) {
  const text = JSON.stringify(data);
  if (source.nbpText === text) return;
  source.nbpText = text;
  source.data = data;
}

// Positions inside a figure's plot area.
function frameOf(view, element) {
  const box = view.frame.bbox,
    rect = element.getBoundingClientRect();
  return {left: rect.left + box.left, top: rect.top + box.top, width: Math.max(1, box.width), height: Math.max(1, box.height)};
}
