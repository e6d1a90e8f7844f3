// Written by `python -m notebook_prof.service.messages`: do not change it here.
type CellUnit = 'ns' | 'delta' | 'instant' | 'bytes' | 'share' | 'count' | 'number' | 'flops' | 'flops/s' | 'bytes/s' | 'text' | 'name' | 'code';
type TabPart = NotePart | FactsPart | CardsPart | TablePart | SourcePart | TreePart | StackPart | PicturePart;
type Doubts = Record<'host' | 'device', Record<string, string>>;
type LodPicture = LodCells | LodSlices;
type SearchAnswer = Match | NoMatch;
/** What every answer may have beside what was asked. */
interface Header {
  columns?: [string, ColumnType][];
  seq?: number;
  revision?: number;
  ms?: number;
  pending?: boolean;
  failed?: string;
}
/** A thread, a stream or whatever else has slices; `row` is the first of its drawn rows. */
interface Track {
  track: number;
  name: string;
  label: string;
  outer_rows: number;
  quiet: boolean;
  marks: number;
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
/** Colours of the account, for steps and for code, in turns. */
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
  line: number;
  ts: number;
}
/** The facts of the trace; `work` is from the first slice to the end of the last. */
interface MetaContent {
  span: [number, number];
  work: [number, number];
  slices: number;
  names: number;
  tracks: Track[];
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
  doubts?: Record<'host' | 'device', Record<string, string>>;
  colours: Colours;
  data: StepColumns;
}
/** Sentences by name: what the trust report doubts. */
interface DoubtsAnswer {
  doubts: Record<'host' | 'device', Record<string, string>>;
}
/** Colour of each name. */
type NameColumns = {
  colour: Uint8Array;
};
/** Names from code `start` on, and the code to go on with; `short` is empty where it is the name. */
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
/** What the colours stand for: text, colour and share of all own time, and how many others there are. */
interface LegendAnswer {
  items: [string, string, number][];
  more: number;
}
/** A picture that the page keeps; `picture` numbers what of it does not hang on the selection. */
interface KeptPicture {
  filtered: boolean;
  picture?: number;
  same?: false;
}
/** Cells of rows × bins: what is too narrow to be drawn one by one. */
interface DensityPlace {
  filtered: boolean;
  picture?: number;
  same?: false;
  mode: 'dense';
  bins: number;
  bin_start: number;
  bin_ns: number;
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
type LodColumns = {
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
/** Some rows, with cells for what is too narrow. */
interface LodCells {
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
  data: LodColumns;
}
/** Some rows of which every slice is drawn. */
interface LodSlices {
  filtered: boolean;
  picture?: number;
  same?: false;
  mode: 'all';
  bins: 0;
  total: number;
  quads: number;
  data: SliceColumns;
}
/** What of a picture is selected. */
type MarkColumns = {
  match: Uint8Array;
  bright?: Uint8Array;
  found?: Uint8Array;
};
/** The picture is the one that the page has: only its marks come. */
interface LodMarks {
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
/** The whole recording. `tracks` says of each row of which track it is, the first, the second …; the first `busy_rows` of them tell how busy those are. */
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
/** The strip is the one that the page has. */
interface StripMarks {
  tracks: number[];
  busy_rows: number;
  filtered: boolean;
  picture: number;
  same: true;
  data: StripMarkColumns;
}
/** An instant and what was allocated then. */
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
/** Drawn rows that hold selected slices, and how many lie before, in and after a stretch of time. `end_before` is where the last one before it ends, `start_after` where the first one after it begins; -1 for none. */
type SelectedColumns = {
  row: Uint32Array;
  before: Uint32Array;
  inside: Uint32Array;
  after: Uint32Array;
  end_before: Float64Array;
  start_after: Float64Array;
};
/** How many slices are selected, and where; with `estimate` a report has more, of which it holds sums. */
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
  self_ns: Float64Array;
  device_ns: Float64Array;
};
/** Rows from `start` on, and sums of what is selected; `device_self_ns` is own time of all kernels. */
interface TableAnswer {
  by: Grouping;
  count: number;
  self_ns: number;
  device_self_ns: number;
  host_range: number[];
  device_range: number[];
  estimate?: boolean;
  error: string;
  rows: number;
  start: number;
  waits: number;
  label: string[];
  detail: string[];
  data: TableColumns;
}
/** Where a slice lies. */
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
/** 1 in the bins where a match begins. */
type SearchColumns = {
  marks: Uint8Array;
};
/** The match that is shown, its number (from 0 on) and how many there are. */
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
/** Nothing matches, or the text cannot be understood: a sentence. */
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
/** Everything about one slice; `left` is a sentence where the file does not hold its arguments. */
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
/** Calls of some names; of their `slices` the one that was asked for, and its place. */
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
/** Segments of a critical path: on which track it runs from when to when, by time. */
type PathColumns = {
  track: Int32Array;
  start: Float64Array;
  end: Float64Array;
};
/** A critical path, what it is made of in a sentence, and how Python gives it. */
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
/** Sentences, the time that they are about, its path, and what was waited for, the last first. */
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
/** A sentence, how Python gives it, and the path of a step by class: name, ns before, ns after. */
interface WhatIfAnswer {
  found: true;
  text: string;
  call: string;
  refused: boolean;
  classes: [string, number, number][];
}
/** Nothing can be asked of what is selected: a sentence. */
interface NoWhatIf {
  found: false;
  text: string;
}
/** No slice has this row. */
interface NoSlice {
  found: false;
}
/** The table of the ranks; so many more are not in it. */
interface RankTable {
  heads: string[];
  ranks: number[];
  rows: string[][];
  more: number;
}
/** A figure of the ranks: columns by source, ranges, texts under the pointer and what clicks select. `colours` are lowest and highest value, `scale` their texts. */
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
/** One number or word with what it is. */
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
/** Something found, and what a click on it selects. */
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
/** Of a column of names: what to write, and the colour of the family; the whole name is in `texts`. */
interface NameCells {
  labels: string[];
  colours: string[];
}
/** A table: `heads` are key, text and unit; its numbers lie in the columns ``PART.KEY``. */
interface TablePart {
  kind: 'table';
  title: string;
  call: string;
  heads: ([string, string, 'ns' | 'delta' | 'instant' | 'bytes' | 'share' | 'count' | 'number' | 'flops' | 'flops/s' | 'bytes/s' | 'text' | 'name' | 'code'])[];
  texts: Record<string, string[]>;
  names: Record<string, NameCells>;
  bars: string[];
  size: number;
  rows: number;
  select: (SelectionPatch | null)[] | null;
}
/** Source code: a table in the order of the file, whose column `trend` has `steps` numbers a row. */
interface SourcePart {
  kind: 'source';
  title: string;
  call: string;
  heads: ([string, string, 'ns' | 'delta' | 'instant' | 'bytes' | 'share' | 'count' | 'number' | 'flops' | 'flops/s' | 'bytes/s' | 'text' | 'name' | 'code'])[];
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
/** A table whose rows are opened and closed: its columns `parent` and `depth` say what is below what. Its columns `more` and `more_weight` say how many rows directly below each were left out, and what they took of `weight`; of roots, `more_roots` does. */
interface TreePart {
  kind: 'tree';
  title: string;
  call: string;
  heads: ([string, string, 'ns' | 'delta' | 'instant' | 'bytes' | 'share' | 'count' | 'number' | 'flops' | 'flops/s' | 'bytes/s' | 'text' | 'name' | 'code'])[];
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
  heads: ([string, string, 'ns' | 'delta' | 'instant' | 'bytes' | 'share' | 'count' | 'number' | 'flops' | 'flops/s' | 'bytes/s' | 'text' | 'name' | 'code'])[];
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
/** A tab; `under` are dimensions of the selection that it follows, with `whole` none. With `follows_own` it also follows what was selected in it. */
interface PanelAnswer {
  name: string;
  title: string;
  under: Dimension[];
  follows_own: boolean;
  parts: (NotePart | FactsPart | CardsPart | TablePart | SourcePart | TreePart | StackPart | PicturePart)[];
  whole?: boolean;
  data: PanelColumns;
}
/** The sentence why a tab has nothing to show. */
interface NoPanel {
  name: string;
  absent: string;
}
/** UTF-8 of the JSON that a report holds as ``ReportData``. */
type RecordingColumns = {
  json: Uint8Array;
};
/** The recording as a report packs it. */
interface RecordingAnswer {
  slices: number;
  data: RecordingColumns;
}
/** Too many slices for a page: the kernel goes on answering. */
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
  lod: LodCells | LodSlices | LodMarks;
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
  search: Match | NoMatch;
  calls: CallsAnswer;
  panel: PanelAnswer | NoPanel;
  recording: RecordingAnswer | NoRecording;
  ranks: RanksAnswer;
  path: PathAnswer | NoPath;
  selected: SelectedAnswer;
}
