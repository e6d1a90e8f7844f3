// BokehJS comes from the installed wheel and has no types for what the page uses: models by name, views, canvases.
type BokehObject = any;

interface BokehRange {
  start: number;
  end: number;
  setv(values: {start?: number; end?: number}): void;
  properties: Record<'start' | 'end', {change: {connect(changed: () => void): void}}>;
}

interface BokehFormatter {
  doFormat(ticks: number[]): string[];
}

interface Window {
  Bokeh?: BokehObject;
}

/** The JSON of a Bokeh document, as the kernel or a report gives it. */
interface DocumentJson {
  roots: {attributes: {height: number}}[];
}

/** A document in the page, as `mountDocument` gives it. */
interface Host {
  Bokeh: BokehObject;
  doc: BokehObject;
  model(name: string): BokehObject;
  viewOf(figure: BokehObject): BokehObject;
  dispose(): void;
  frames: Frames;
}

/** When painting happens: see figures/frames.js. */
interface Frames {
  before(act: () => void): void;
  paint(act: () => void): void;
  turn(act: () => void): void;
  flush(): void;
  close(): void;
}
