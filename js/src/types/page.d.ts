// What the parts of the page share.
type Store = ReturnType<typeof import('../shared/store.js').createStore>;
type Asker = import('../shared/asker.js').Asker;
type Theme = Record<'background' | 'text' | 'muted' | 'grid' | 'dim' | 'accent', string>;
type Palettes = ReturnType<typeof import('../timeline/colours.js').createPalettes>;
type Tooltip = ReturnType<typeof import('../page/tooltip.js').createTooltip>;
type Lanes = import('../timeline/lanes.js').Lanes;

/** A text of the headline, and what a click on it selects. */
/** A text, what a click on it selects, and the code that gives its number. */
type HeadlinePiece = [string, SelectionPatch | null, string?];

interface TabSettings {
  name: string;
  title: string;
  /** Why there is nothing in it, in a sentence. */
  missing: string;
  /** Key, label and options (value and text) of what is chosen in its head; no options where it is on or off. */
  choices: [string, string, [string, string][]][];
}

/** What the run before took, if there was one: its steps in ns, and lines as `cell:12`, ns there and ns now. */
interface RunBefore {
  steps: number[];
  lines: Record<string, [number, number]>;
}

/** Facts that the page mounts with: see views/dashboard.py. */
interface Settings {
  bokeh: string;
  uid: string;
  late?: boolean;
  page?: string;
  gutter: number;
  margin: number;
  lane: number;
  axis: number;
  /** Height of the figure of the phases in a high window. */
  phases?: number;
  figures: string[];
  verdict: string;
  headline: HeadlinePiece[][];
  before?: RunBefore;
  empty: Record<string, string>;
  tabs: TabSettings[];
  open: string;
  /** The recorded cell, where its lines are known: its id in the notebook, and its text. */
  cell?: {id: string; source: string};
  /** The cells of a watched notebook, which the editor shows. */
  cells?: EditorCell[];
  notice?: string;
  absent?: string;
}

/** What is asked once: the facts of the trace and all names. */
interface Meta extends Omit<MetaContent, 'data'> {
  stepColumns: StepColumns;
  nameList: string[];
  /** What to write for each name; empty where it is the name. */
  shortList: string[];
  nameColours: Uint8Array;
}

/** What every part of the page is given: figures, facts, the selection, and what one part asks of another. */
interface Context {
  host: Host;
  settings: Settings;
  meta: Meta;
  store: Store;
  asker: Asker;
  whenTold?: Transport['whenTold'];
  before?: RunBefore;
  /** Why a line of source takes long, as the headline tells it. */
  because?(): {line: string; parts: Node[]} | null;
  /** The time in view. */
  range: BokehRange;
  theme: Theme;
  tint: Tint;
  /** What is searched for: the slices that it matches are outlined. */
  searchText: string;
  search(text: string): void;
  tooltip: Tooltip;
  palettes: Palettes;
  nameOf(code: number): string;
  /** What is written for a name: short, and no other name's. */
  labelOf(code: number): string;
  colourOfName(code: number): number;
  /** Notes that a view has been drawn. */
  count(name: string): void;
  trouble(error: Error): void;
  hint(text: string): void;
  /** Tells the line of source that the slice under the pointer ran for; empty for none. */
  hoverLine(line: string): void;
  reveal(id: number): void;
  /** Tells which tracks hold what is selected. */
  takeFocus(): void;
  /** Whether the wheel and the keys that move belong to the timeline. */
  inTimeline(): boolean;
  mode(): string;
  pointerTime(): number | null;
  settled(): void;
  totals(answer: TableAnswer): void;
  setView(a: number, b: number): void;
  zoom(factor: number, at: number): void;
  fitSelection(): void;
  showSelection(): void;
  walk(by: number): Promise<void>;
  goTo(found: FoundSlice): void;
  neighbour(to: 'next' | 'previous' | 'parent' | 'child'): Promise<void>;
  follow(): void;
  /** Tells why the track under the pointer, or the slice in focus, does what it does. */
  why(): void;
  /** Asks how long steps would take if what is selected took another time, or hides that. */
  whatIf(): void;
  /** Shows the critical path, or hides it. */
  path(): void;
  /** Shows the path of what is explained; null: no longer. */
  explain(segments: PathColumns | null): void;
  find(): void;
  clearFind(): void;
  measure(): void;
  focusFilter(): void;
  help(): void;
  /** Selects what was selected before (-1), or again (1). */
  goBack(by: number): void;
  copyAsPandas(): Promise<void>;
  escape(): void;
}

/** Elements of the page by what they hold. */
type PageParts = ReturnType<typeof import('../page/skeleton.js').skeleton>;

interface Point {
  x: number;
  y: number;
}
