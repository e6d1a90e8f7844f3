// Answers to the page's questions; service/answers has the functions of the kernel that give them.
type NumberArray = Float64Array | Float32Array | Int32Array | Uint32Array | Uint16Array | Uint8Array;
type ColumnType = 'f8' | 'f4' | 'i4' | 'u4' | 'u2' | 'u1';
type NumberColumns = Record<string, NumberArray>;

interface RawAnswer {
  content: {
    columns?: [string, ColumnType][];
    seq?: number;
    /** Revision of the selection that the answer has seen. */
    revision?: number;
    /** How long it took to work it out. */
    ms?: number;
    /** An index is still being built: ask again. */
    pending?: boolean;
    /** Why there is no answer, in a sentence. */
    failed?: string;
    [name: string]: unknown;
  };
  buffers: ArrayBufferView[];
}

interface Message {
  t: string;
  [name: string]: unknown;
}

interface Transport {
  request(message: Message): Promise<RawAnswer>;
  flush?(): void;
  whenLost?(tell: () => void): () => void;
  whenTold?(tell: (text: string, pieces: HeadlinePiece[][]) => void): () => void;
}

type Dimension = 'window' | 'name' | 'category' | 'track' | 'step' | 'phase' | 'rank' | 'group' | 'focus';
interface SelectionState {
  /** Begin and end in ns. */
  window?: [number, number] | null;
  name?: string[] | null;
  category?: string[] | null;
  track?: number[] | null;
  step?: number[] | null;
  phase?: string[] | null;
  rank?: number[] | null;
  group?: string[] | null;
  /** Row of the slice under inspection. */
  focus?: number | null;
  revision?: number;
}
type SelectionPatch = Omit<SelectionState, 'revision'>;

type Tint = 'name' | 'phase' | 'category' | 'module' | 'step';
type Grouping = 'name' | 'shapes' | 'module' | 'category';

interface Legend {
  /** Text, colour (`#rrggbb`) and share of the own time of all slices; the most first. */
  items: [string, string, number][];
  /** How many others there are. */
  more: number;
}

interface Track {
  track: number;
  name: string;
  /** What to write beside it. */
  label: string;
  /** Outermost rows that hold one slice each around nearly everything. */
  outer_rows: number;
  /** A thread that waits, or does next to nothing. */
  quiet: boolean;
  /** So many of its first rows hold ranges that only mark what runs below them. */
  marks: number;
  group: string;
  kind: string;
  /** First of its drawn rows. */
  row: number;
  depths: number;
  rank: number;
  /** Share of the recording. */
  busy: number;
}

interface Counter {
  track: number;
  name: string;
  group: string;
  unit: string;
  low: number;
  high: number;
}

interface AccountColours {
  steps: string[];
  code: string[];
}

interface MetaContent {
  span: [number, number];
  /** From the first slice to the end of the last. */
  work: [number, number];
  slices: number;
  tracks: Track[];
  hidden?: number[];
  categories: string[];
  phases: string[];
  tints: Tint[];
  groupings: Grouping[];
  device: boolean;
  memory: number[];
  resident: boolean;
  counters: Counter[];
  steps: number;
  doubts?: Doubts;
  colours: {
    names: string[];
    phases: string[];
    categories: string[];
    phase: Record<string, string>;
    step: string;
    resource: Record<'device' | 'host', string>;
    account: AccountColours;
    memory: Record<'allocated' | 'reserved' | 'selected' | 'peak', string>;
    counter: string;
  };
}
type Doubts = Record<'host' | 'device', Record<string, string>>;
interface StepColumns {
  step: Int32Array;
  ts: Float64Array;
  dur: Float64Array;
}

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
interface AccountAnswer {
  parts: AccountPart[];
  shown: boolean;
  thinned: boolean;
  data: {ts: Float64Array; dur: Float64Array; part: Uint32Array; steps: Uint32Array};
}

/** Cells of rows × bins: what is too narrow to be drawn one by one. */
interface DensityPlace {
  mode: 'dense' | 'all';
  bins: number;
  bin_start: number;
  bin_ns: number;
  /** Whether the bins hold slices of which a report has sums only. */
  sums?: boolean;
}
interface DensityColumns {
  busy: Uint8Array;
  bright: Uint8Array;
  count: Uint32Array;
  dname: Uint32Array;
  dtint: Uint8Array;
}
interface SliceColumns {
  x0: Float64Array;
  dur: Float64Array;
  slot: Uint16Array;
  name: Uint32Array;
  tint: Uint8Array;
  id: Uint32Array;
  match: Uint8Array;
}
interface LodAnswer extends DensityPlace {
  total: number;
  quads: number;
  filtered: boolean;
  picture?: number;
  /** The picture is the one that the page has: only its marks come. */
  same?: boolean;
  data: SliceColumns & DensityColumns;
}
interface StripAnswer extends DensityPlace {
  /** Of each row, which track it is of: the first, the second … */
  tracks: number[];
  /** So many of the first rows tell how busy the tracks are. */
  busy_rows: number;
  filtered: boolean;
  picture?: number;
  same?: boolean;
  data: DensityColumns;
}

interface MemoryAnswer {
  device: number | null;
  part: 'blocks' | 'selection';
  peak: {ts: number; bytes: number};
  window_peak: {ts: number; bytes: number} | null;
  highest: number;
  lowest: number;
  data: Record<'x' | 'y' | 'rx' | 'ry' | 'sx' | 'sy', Float64Array>;
}

interface PhasesAnswer {
  bars: number;
  phases: string[];
  filtered: boolean;
  estimate?: boolean;
  /** `total` and `part`: bars × phases. */
  data: Record<'total' | 'part' | 'first' | 'last' | 'ts' | 'end', Float64Array>;
}

type TableNumber = 'count' | 'total_ns' | 'self_ns' | 'device_ns' | 'share';
interface TableAnswer {
  by: Grouping;
  count: number;
  self_ns: number;
  /** Own time of all kernels. */
  device_self_ns: number;
  estimate?: boolean;
  error: string;
  rows: number;
  start: number;
  /** How many of the rows that pass the filter are of calls that only wait. */
  waits: number;
  label: string[];
  detail: string[];
  data: Record<TableNumber, Float64Array> & {name: Uint32Array; side: Uint8Array; waits: Uint8Array};
}

interface FoundSlice {
  id: number;
  ts: number;
  dur: number;
  row: number;
}
/** `id` is null where there is none. */
type Found = FoundSlice | {id: null; ts?: number; dur?: number; row?: number};
type SearchAnswer = Found & {count: number; place: number | null; error: string; data: {marks: Uint8Array}};

interface SliceLink extends FoundSlice {
  kind: string;
  direction: 'to' | 'from';
  name: string;
}
interface DetailAnswer extends FoundSlice {
  found: boolean;
  name: string;
  category: string;
  track_name: string;
  group: string;
  depth: number;
  self_ns: number;
  step: number | null;
  phase: string;
  module: string;
  shapes: string;
  parent: {id: number; name: string} | null;
  arguments: [string, string][];
  /** A sentence where the file does not hold them. */
  left?: string;
  stack: string[];
  links: SliceLink[];
}

type CellUnit = 'ns' | 'instant' | 'bytes' | 'share' | 'count' | 'number' | 'flops' | 'flops/s' | 'bytes/s' | 'text' | 'name' | 'code';
/** Key, text and unit of a column. */
type TableHead = [string, string, CellUnit];
interface AbsentPart {
  kind: 'absent';
  text: string;
}
interface NotePart {
  kind: 'note';
  text: string;
  warns: boolean;
}
interface FactsPart {
  kind: 'facts';
  facts: {label: string; value: string; note: string}[];
}
interface CardsPart {
  kind: 'cards';
  cards: {title: string; badge: string; lines: string[]; select: SelectionPatch | null}[];
}
interface TablePart {
  kind: 'table';
  title: string;
  call: string;
  heads: TableHead[];
  texts: Record<string, string[]>;
  /** Of columns of names: what to write, and the colour of the family; the whole name is in `texts`. */
  names?: Record<string, {labels: string[]; colours: string[]}>;
  bars?: string[];
  size: number;
  rows: number;
  select: (SelectionPatch | null)[] | null;
  columns: NumberColumns;
}
interface PicturePart {
  kind: 'picture';
  title: string;
  /** Texts and their colours. */
  legend: [string, string][];
  document: string;
}
type TabPart = AbsentPart | NotePart | FactsPart | CardsPart | TablePart | PicturePart;
interface PanelAnswer {
  name: string;
  title?: string;
  absent?: string;
  /** Dimensions of the selection that the tab follows. */
  under: Dimension[];
  whole?: boolean;
  parts: TabPart[];
  data: NumberColumns;
}

interface RanksAnswer {
  failed?: string;
  panels: Record<string, RankPanelAnswer>;
  table: RankTable;
}
interface RankTable {
  heads: string[];
  ranks: number[];
  rows: string[][];
  /** How many ranks are not in it. */
  more: number;
}
interface RankPanelAnswer {
  sources: Record<string, BokehObject>;
  x: number[];
  y: number[];
  title?: string;
  note?: string;
  /** Lowest and highest value, and their texts. */
  colours?: number[];
  scale?: string[];
  labels?: string[];
  tips?: string[];
  rank?: number[];
  members?: number[][];
  groups?: string[];
}

/** What comes back; questions.d.ts says what is asked. */
interface Answers {
  meta: MetaContent & {data: StepColumns};
  doubts: {doubts: Doubts};
  names: {names: string[]; short: string[]; next: number | null; data: {colour: Uint8Array}};
  account: AccountAnswer;
  legend: Legend;
  lod: LodAnswer;
  strip: StripAnswer;
  memory: MemoryAnswer;
  counters: {tracks: number[]; sizes: number[]; data: {x: Float64Array; y: Float64Array}};
  phases: PhasesAnswer;
  table: TableAnswer;
  detail: DetailAnswer;
  find: Found;
  neighbour: Found;
  search: SearchAnswer;
  panel: PanelAnswer;
  ranks: RanksAnswer;
}
type Question = keyof Asked & keyof Answers;
type QuestionOf<Q extends Question> = {t: Q} & Asked[Q];
type AnswerOf<Q extends Question> = Answers[Q] & {revision?: number};
