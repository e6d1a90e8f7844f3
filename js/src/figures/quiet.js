// Work that BokehJS 3.x does on every paint without need, taken out. Our colours are properties, never CSS.

/**
 * bokeh#15286: every visual asks getComputedStyle on every paint, and so does the base font size of every text
 * label: a third of the time while panning in JupyterLab's big page.
 * @param {BokehObject} Bokeh
 */
export function quietStyles(Bokeh) {
  const visuals = Bokeh.require('core/visuals/visual').VisualProperties.prototype;
  if (visuals.__nbp) return;
  visuals.__nbp = true;
  if (visuals._get_css_value) visuals._get_css_value = () => '';
  const plot = Bokeh.require('models/plots/plot_canvas').PlotView.prototype;
  const base = Object.getOwnPropertyDescriptor(plot, 'base_font_size'),
    read = base?.get;
  if (read)
    Object.defineProperty(plot, 'base_font_size', {
      configurable: true,
      /** @this {BokehObject} */
      get() {
        return (this.__nbpFont ??= read.call(this));
      },
    });
}

/**
 * Every renderer writes its place into a style sheet of its own on every paint, the same one again and again: each time
 * the browser styles, lays out and layers JupyterLab's whole page. Nothing of ours hangs on the place of a glyph or a box.
 * @param {BokehObject} Bokeh
 */
export function quietSheets(Bokeh) {
  const sheet = Bokeh.require('core/dom').InlineStyleSheet?.prototype,
    renderer = Bokeh.require('models/renderers/renderer').RendererView.prototype;
  if (!sheet?._update || sheet.__nbp) return;
  sheet.__nbp = true;
  const update = sheet._update,
    place = renderer.update_position;
  /**
   * @this {BokehObject}
   * @param {string} css
   */
  sheet._update = function (css) {
    if (this.__nbpCss === css) return;
    this.__nbpCss = css;
    update.call(this, css);
  };
  if (place)
    /** @this {BokehObject} */
    renderer.update_position = function () {
      if (this.panel != null || !this.model.document?.nbp) place.call(this);
    };
}
