// What a page is answered: small facts, and columns of numbers in `data`. A test checks the kernel's answers.
type CellUnit = 'ns' | 'delta' | 'instant' | 'bytes' | 'share' | 'count' | 'number' | 'flops' | 'flops/s' | 'bytes/s' | 'text' | 'name' | 'code';
type TabPart = NotePart | FactsPart | CardsPart | TablePart | SourcePart | TreePart | StackPart | PicturePart;
type Doubts = Record<'host' | 'device', Record<string, string>>;
type TimelinePicture = TimelineCells | TimelineSlices;
type SearchAnswer = Match | NoMatch;
/** Fields that every answer may have. */
interface Header {
  /** Name and dtype of each buffer. */
  columns?: [string, ColumnType][];
  seq?: number;
  /** Revision of the selection for which the answer was made. */
  revision?: number;
  /** Time it took to compute the answer. */
  ms?: number;
  /** An index is still being built: ask again. */
  pending?: boolean;
  /** Why there is no answer, in a sentence. */
  failed?: string;
}
/** A thread, a stream or another track with slices; `row` is the first of its drawn rows. */
interface Track {
  track: number;
  name: string;
  label: string;
  outer_rows: number;
  quiet: boolean;
  /** Number of its first rows whose ranges only annotate the work below them. */
  marks: number;
  /** Number of rows at the end that hold folded library frames and are not drawn. */
  folded: number;
  group: string;
  kind: string;
  row: number;
  depths: number;
  rank: number;
  busy: number;
}
/** A counter that has values, from `low` to `high`; `unit`: ``bytes``, ``1`` (share), ``W`` … or empty. */
interface Counter {
  track: number;
  name: string;
  group: string;
  unit: string;
  low: number;
  high: number;
}
/** Colours of the account, for steps and for code, used in turn. */
interface AccountColours {
  steps: string[];
  code: string[];
}
/** Colours of everything (``#RRGGBB``): by code (`names phases categories`) or by name. */
interface Colours {
  names: string[];
  phases: string[];
  categories: string[];
  phase: Record<string, string>;
  step: string;
  resource: Record<'device' | 'host', string>;
  account: AccountColours;
  memory: Record<'allocated' | 'reserved' | 'selected' | 'peak', string>;
  counter: string;
}
/** Steps. */
type StepColumns = {
  step: Int32Array;
  ts: Float64Array;
  dur: Float64Array;
};
/** The exception that ended the cell: its name, its line, and when. */
interface Raised {
  error: string;
  /** Line of the statement, and of what failed in it. */
  line: number;
  at: number;
  ts: number;
}
/** The facts of the trace; `work` is from the first slice to the end of the last. */
interface MetaContent {
  span: [number, number];
  work: [number, number];
  slices: number;
  names: number;
  tracks: Track[];
  /** The tracks of a timeline that shows all frames; empty if no frames are folded. */
  unfolded: Track[];
  hidden?: number[];
  categories: string[];
  phases: string[];
  lines: string[];
  tints: Tint[];
  groupings: Grouping[];
  device: boolean;
  memory: number[];
  resident: boolean;
  counters: Counter[];
  steps: number;
  steps_source: string;
  raised?: Raised;
  doubts?: Doubts;
  colours: Colours;
  data: StepColumns;
}
/** The doubts of the trust report, as sentences by name. */
interface DoubtsAnswer {
  doubts: Doubts;
}
/** Colour of each name. */
type NameColumns = {
  colour: Uint8Array;
};
/** Names from code `start` on, and the next code to request; `short` is empty if it equals the name. */
interface NamesAnswer {
  start: number;
  names: string[];
  short: string[];
  next: number | null;
  data: NameColumns;
}
/** A part of the cell: see `notebook_prof.analysis.account`. */
interface AccountPart {
  part: string;
  kind: string;
  share: number;
  text: string;
  line: number | null;
  dur: number;
  steps: number;
  cpu_ns: number | null;
  wait_ns: number | null;
  device_ns: number | null;
  loop: number | null;
}
/** Stretches of time, ascending. */
type AccountColumns = {
  ts: Float64Array;
  dur: Float64Array;
  part: Uint32Array;
  steps: Uint32Array;
};
/** The account of the cell. */
interface AccountAnswer {
  parts: AccountPart[];
  shown: boolean;
  thinned: boolean;
  data: AccountColumns;
}
/** The meaning of the colours: text, colour and share of all self time; and the number of further ones. */
interface LegendAnswer {
  items: [string, string, number][];
  more: number;
}
/** A picture that the page keeps; `picture` identifies its part that is independent of the selection. */
interface KeptPicture {
  filtered: boolean;
  picture?: number;
  same?: false;
}
/** Cells (rows × bins) of slices too narrow to be drawn one by one. */
interface DensityPlace {
  filtered: boolean;
  picture?: number;
  same?: false;
  mode: 'dense';
  bins: number;
  bin_start: number;
  bin_ns: number;
  /** Whether the bins include slices that a report has only as sums. */
  sums?: boolean;
}
/** Slices that are drawn one by one. */
type SliceColumns = {
  x0: Float64Array;
  dur: Float64Array;
  slot: Uint16Array;
  name: Uint16Array | Uint32Array;
  tint: Uint8Array;
  id: Uint32Array;
  match: Uint8Array;
  found?: Uint8Array;
  line?: Int32Array;
};
/** Cells, row by row. */
type DensityColumns = {
  busy: Uint8Array;
  bright: Uint8Array;
  count: Uint32Array;
  dname: Uint16Array | Uint32Array;
  dtint: Uint8Array;
};
/** Slices and cells. */
type TimelineColumns = {
  x0: Float64Array;
  dur: Float64Array;
  slot: Uint16Array;
  name: Uint16Array | Uint32Array;
  tint: Uint8Array;
  id: Uint32Array;
  match: Uint8Array;
  found?: Uint8Array;
  line?: Int32Array;
  busy: Uint8Array;
  bright: Uint8Array;
  count: Uint32Array;
  dname: Uint16Array | Uint32Array;
  dtint: Uint8Array;
};
/** Some rows, with cells for narrow slices. */
interface TimelineCells {
  filtered: boolean;
  picture?: number;
  same?: false;
  mode: 'dense';
  bins: number;
  bin_start: number;
  bin_ns: number;
  sums?: boolean;
  total: number;
  quads: number;
  data: TimelineColumns;
}
/** Some rows in which every slice is drawn. */
interface TimelineSlices {
  filtered: boolean;
  picture?: number;
  same?: false;
  mode: 'all';
  bins: 0;
  total: number;
  quads: number;
  data: SliceColumns;
}
/** The selected part of a picture. */
type MarkColumns = {
  match: Uint8Array;
  bright?: Uint8Array;
  found?: Uint8Array;
};
/** The page already has this picture: only its marks are sent. */
interface TimelineMarks {
  total: number;
  quads: number;
  filtered: boolean;
  picture: number;
  same: true;
  data: MarkColumns;
}
/** Cells of the overview. */
type StripColumns = {
  busy: Uint8Array;
  bright: Uint8Array;
  dname: Uint16Array | Uint32Array;
  dtint: Uint8Array;
};
/** The whole recording. `tracks` has the ordinal of each row's track; the first `busy_rows` rows show how busy the tracks are. */
interface StripAnswer {
  filtered: boolean;
  picture?: number;
  same?: false;
  mode: 'dense';
  bins: number;
  bin_start: number;
  bin_ns: number;
  sums?: boolean;
  tracks: number[];
  busy_rows: number;
  data: StripColumns;
}
/** Selected part of every cell. */
type StripMarkColumns = {
  bright: Uint8Array;
};
/** The page already has this strip. */
interface StripMarks {
  tracks: number[];
  busy_rows: number;
  filtered: boolean;
  picture: number;
  same: true;
  data: StripMarkColumns;
}
/** An instant, and the bytes allocated then. */
interface Peak {
  ts: number;
  bytes: number;
}
/** Points of the curves: allocated, reserved and selected. */
type MemoryColumns = {
  x: Float64Array;
  y: Float64Array;
  rx: Float64Array;
  ry: Float64Array;
  sx: Float64Array;
  sy: Float64Array;
};
/** Memory of one device; -1 is the host. */
interface MemoryAnswer {
  device: number;
  part: 'blocks' | 'selection';
  peak: Peak;
  window_peak: Peak | null;
  highest: number;
  lowest: number;
  data: MemoryColumns;
}
/** Nothing was allocated; the columns are empty. */
interface NoMemory {
  device: null;
  data: MemoryColumns;
}
/** Points, one track after the other. */
type CounterColumns = {
  x: Float64Array;
  y: Float64Array;
};
/** Counters, with the number of points of each. */
interface CountersAnswer {
  tracks: number[];
  sizes: number[];
  data: CounterColumns;
}
/** Bars; `total` and `part` are bars × phases. */
type PhaseColumns = {
  total: Float64Array;
  part: Float64Array;
  first: Float64Array | Int32Array;
  last: Float64Array | Int32Array;
  ts: Float64Array;
  end: Float64Array;
};
/** Time by step and phase. */
interface PhasesAnswer {
  bars: number;
  phases: string[];
  filtered: boolean;
  estimate?: boolean;
  data: PhaseColumns;
}
/** Drawn rows with selected slices, and the number of these before, in and after a window. `end_before` is the end of the last one before it, `start_after` the start of the first one after it; -1 for none. */
type SelectedColumns = {
  row: Uint32Array;
  before: Uint32Array;
  inside: Uint32Array;
  after: Uint32Array;
  end_before: Float64Array;
  start_after: Float64Array;
};
/** Number and rows of selected slices; with `estimate`, a report has only sums of further ones. */
interface SelectedAnswer {
  count: number;
  estimate?: boolean;
  data: SelectedColumns;
}
/** Rows of the table; `side` is 1 on a device, `waits` for a call that only waits. */
type TableColumns = {
  name: Uint32Array;
  side: Uint8Array;
  waits: Uint8Array;
  share: Float64Array;
  count: Float64Array;
  total_ns: Float64Array;
  min_ns: Float64Array;
  max_ns: Float64Array;
  self_ns: Float64Array;
  device_ns: Float64Array;
};
/** Rows from `start` on, and sums over the selection; `device_self_ns` is the self time of all kernels. */
interface TableAnswer {
  by: Grouping;
  count: number;
  self_ns: number;
  device_self_ns: number;
  /** The shortest and the longest slice of these rows; empty without one, or for very many slices. */
  host_range: number[];
  device_range: number[];
  estimate?: boolean;
  error: string;
  rows: number;
  start: number;
  /** Number of rows that pass the filter and are calls that only wait. */
  waits: number;
  label: string[];
  detail: string[];
  data: TableColumns;
}
/** The position of a slice. */
interface FoundSlice {
  id: number;
  ts: number;
  dur: number;
  row: number;
}
/** There is no such slice. */
interface NothingFound {
  id: null;
}
/** 1 in the bins in which a match begins. */
type SearchColumns = {
  marks: Uint8Array;
};
/** The match that is shown, its number (from 0) and the number of matches. */
interface Match {
  id: number;
  ts: number;
  dur: number;
  row: number;
  count: number;
  place: number;
  error: string;
  data: SearchColumns;
}
/** Nothing matches, or the text is invalid: a sentence. */
interface NoMatch {
  id: null;
  count: 0;
  place: null;
  error: string;
  data: SearchColumns;
}
/** A slice that launched this one, or was launched by it. */
interface SliceLink {
  id: number;
  ts: number;
  dur: number;
  row: number;
  kind: string;
  direction: 'to' | 'from';
  name: string;
}
/** A slice by name. */
interface SliceName {
  id: number;
  name: string;
}
/** Everything about one slice; `left` is a sentence if the file lacks its arguments. */
interface SliceDetail {
  id: number;
  ts: number;
  dur: number;
  row: number;
  found: true;
  name: string;
  category: string;
  track_name: string;
  group: string;
  depth: number;
  self_ns: number;
  step: number | null;
  phase: string;
  module: string;
  line: string;
  shapes: string;
  parent: SliceName | null;
  arguments: [string, string][];
  left?: string;
  stack: string[];
  links: SliceLink[];
}
/** Calls of some names, and the requested one of their `slices` with its position. */
interface CallsAnswer {
  count: number;
  total_ns: number;
  self_ns: number;
  slices: number;
  place: number | null;
  slice: FoundSlice | null;
}
/** A slice that was waited for. */
interface Cause {
  id: number;
  ts: number;
  dur: number;
  row: number;
  name: string;
}
/** Segments of a critical path by time: track, start and end. */
type PathColumns = {
  track: Int32Array;
  start: Float64Array;
  end: Float64Array;
};
/** A critical path, a sentence about its parts, and the Python call that returns it. */
interface PathAnswer {
  found: true;
  text: string;
  call: string;
  data: PathColumns;
}
/** There is no critical path: a sentence. */
interface NoPath {
  found: false;
  text: string;
}
/** Sentences, the time that they are about, its path, and the causes of waits, the last first. */
interface WhyAnswer {
  found: true;
  lines: string[];
  window: [number, number];
  call: string;
  causes: Cause[];
  data: PathColumns;
}
/** There is nothing to explain: a sentence. */
interface NoWhy {
  found: false;
  lines: string[];
}
/** A sentence, its Python call, and the path of a step by class: name, ns before, ns after. */
interface WhatIfAnswer {
  found: true;
  text: string;
  call: string;
  refused: boolean;
  classes: [string, number, number][];
}
/** The selection cannot be asked about: a sentence. */
interface NoWhatIf {
  found: false;
  text: string;
}
/** No slice has this row. */
interface NoSlice {
  found: false;
}
/** The table of the ranks, and the number of ranks left out. */
interface RankTable {
  heads: string[];
  ranks: number[];
  rows: string[][];
  more: number;
}
/** A figure of the ranks: columns by source, ranges, tooltips, and what clicks select. `colours` are the lowest and the highest value, `scale` their texts. */
interface RankPanelAnswer {
  sources: Record<string, BokehObject>;
  x: number[];
  y: number[];
  title?: string;
  note?: string;
  colours?: number[];
  scale?: string[];
  labels?: string[];
  tips?: string[];
  rank?: number[];
  members?: number[][];
  groups?: string[];
}
/** What the figures of many recordings show. */
interface RanksAnswer {
  panels: Record<string, RankPanelAnswer>;
  table: RankTable;
}
/** A sentence or two. */
interface NotePart {
  kind: 'note';
  text: string;
  warns: boolean;
}
/** One number or word with its label. */
interface Fact {
  label: string;
  value: string;
  note: string;
}
/** Facts beside each other. */
interface FactsPart {
  kind: 'facts';
  facts: Fact[];
}
/** A finding, and what a click on it selects. */
interface Card {
  title: string;
  badge: string;
  lines: string[];
  select: SelectionPatch | null;
}
/** Cards below each other. */
interface CardsPart {
  kind: 'cards';
  cards: Card[];
}
/** A column of names: short labels, and colours of the families; full names are in `texts`. */
interface NameCells {
  labels: string[];
  colours: string[];
}
/** A table: `heads` are key, text and unit; its numbers are in the columns ``PART.KEY``. */
interface TablePart {
  kind: 'table';
  title: string;
  call: string;
  labels: number[] | null;
  heads: [string, string, CellUnit][];
  texts: Record<string, string[]>;
  names: Record<string, NameCells>;
  bars: string[];
  size: number;
  rows: number;
  select: (SelectionPatch | null)[] | null;
}
/** Source code: a table in the order of the file, whose column `trend` has `steps` numbers per row. */
interface SourcePart {
  kind: 'source';
  title: string;
  call: string;
  labels: number[] | null;
  heads: [string, string, CellUnit][];
  texts: Record<string, string[]>;
  names: Record<string, NameCells>;
  bars: string[];
  size: number;
  rows: number;
  select: (SelectionPatch | null)[] | null;
  file: string;
  steps: number;
  folded: boolean;
}
/** A table whose rows open and close; its columns `parent` and `depth` define the tree. Its columns `more` and `more_weight` have the number of children left out of each row, and their sum of `weight`; `more_roots` is the number of roots left out. */
interface TreePart {
  kind: 'tree';
  title: string;
  call: string;
  labels: number[] | null;
  heads: [string, string, CellUnit][];
  texts: Record<string, string[]>;
  names: Record<string, NameCells>;
  bars: string[];
  size: number;
  rows: number;
  select: (SelectionPatch | null)[] | null;
  weight: string;
  more_roots: [number, number];
}
/** A path of calls, the outermost first, beside the part above it. */
interface StackPart {
  kind: 'stack';
  title: string;
  call: string;
  labels: number[] | null;
  heads: [string, string, CellUnit][];
  texts: Record<string, string[]>;
  names: Record<string, NameCells>;
  bars: string[];
  size: number;
  rows: number;
  select: (SelectionPatch | null)[] | null;
}
/** A Bokeh document with one root; the legend has texts and their colours. */
interface PicturePart {
  kind: 'picture';
  title: string;
  legend: [string, string][];
  document: string;
}
/** Numbers of the tables, by part and key. */
type PanelColumns = NumberColumns;
/** A tab; `under` are the dimensions of the selection that it follows (none with `whole`). With `follows_own` it also follows a selection made in it. */
interface PanelAnswer {
  name: string;
  title: string;
  under: Dimension[];
  follows_own: boolean;
  parts: TabPart[];
  whole?: boolean;
  data: PanelColumns;
}
/** A sentence that says why a tab is empty. */
interface NoPanel {
  name: string;
  absent: string;
}
/** UTF-8 of the JSON that a report contains as ``ReportData``. */
type RecordingColumns = {
  json: Uint8Array;
};
/** The recording as a report packs it. */
interface RecordingAnswer {
  slices: number;
  data: RecordingColumns;
}
/** Too many slices for a page: the kernel continues to answer. */
interface NoRecording {
  too_many: number;
}
/** What comes back. */
interface Answers {
  meta: MetaContent;
  doubts: DoubtsAnswer;
  names: NamesAnswer;
  account: AccountAnswer;
  legend: LegendAnswer;
  timeline: TimelinePicture | TimelineMarks;
  strip: StripAnswer | StripMarks;
  memory: MemoryAnswer | NoMemory;
  counters: CountersAnswer;
  phases: PhasesAnswer;
  table: TableAnswer;
  detail: SliceDetail | NoSlice;
  what_if: WhatIfAnswer | NoWhatIf;
  why: WhyAnswer | NoWhy;
  find: FoundSlice | NothingFound;
  neighbour: FoundSlice | NothingFound;
  search: SearchAnswer;
  calls: CallsAnswer;
  panel: PanelAnswer | NoPanel;
  recording: RecordingAnswer | NoRecording;
  ranks: RanksAnswer;
  path: PathAnswer | NoPath;
  selected: SelectedAnswer;
}
