// What lies in a report: see views/report/report_columns.py, which writes it, and report/file/unpack.js, which makes columns of it.
interface PackedColumn {
  data: string;
  type: ColumnType;
  delta: boolean;
}

interface ReportColumns {
  ts: Float64Array;
  dur: NumberArray;
  row: NumberArray;
  /** Row of the slices inside of one another, where frames of libraries are drawn apart. */
  nested?: NumberArray;
  name: NumberArray;
  category: NumberArray;
  phase: NumberArray;
  step: NumberArray;
  line: NumberArray;
  /** Time of the slices inside; worked out from the rows where it is not in the file. */
  inside: NumberArray;
  /** How much longer what lies inside lasts than the slice. */
  extent?: NumberArray;
  /** Slices that end, for nesting and drawing, where something begins that outlives them; and by how much they are longer. */
  straddling: NumberArray;
  shorter: NumberArray;
  shapes?: NumberArray;
  module?: NumberArray;
  work: NumberArray;
  launcher: NumberArray;
  again: NumberArray;
  /** Slices of streams on which ranges have rows of their own, and how many slices before each the one around it is. */
  inner: NumberArray;
  around: NumberArray;
  flow_src: NumberArray;
  flow_dst: NumberArray;
  flow_kind: NumberArray;
}

interface ReportGroup {
  labels: string[];
  /** Codes of the names, of groups that are more than a name. */
  names?: number[];
  details?: string[];
}

interface ReportMemory {
  device: number;
  resident: boolean;
  peak: {ts: number; bytes: number};
  highest: number;
  reserved: boolean;
  columns: Record<'ts' | 'allocated' | 'reserved' | 'bytes' | 'owner', NumberArray> & {
    blocks_ts?: NumberArray;
    blocks?: NumberArray;
  };
}

/** Sums of the slices that are not in the file one by one. */
interface ReportLeft {
  origin: number;
  /** Width of a cell in ns. */
  cell: number;
  /** Cells of a row. */
  cells: number;
  /** Cells of a coarse one. */
  fine: number;
  /** Coarse cells of a place. */
  coarse: number;
  placeOfRow: number[];
  slices: number;
  columns: Record<'at' | 'busy' | 'count' | 'kind' | 'crumb_at' | 'crumb_kind' | 'crumb_weight', NumberArray>;
  kinds: Record<'name' | 'category' | 'phase' | 'line' | 'module', NumberArray>;
  totals: Record<string, NumberArray>;
}

interface ReportData {
  meta: MetaContent;
  steps: StepColumns;
  names: string[];
  short: string[];
  /** `cell:12  y = f(x)`, as `meta.lines`. */
  lineLabels: string[];
  colours: Uint8Array;
  /** Codes of the names of calls that only wait. */
  waits: number[];
  /** Code of the name under which tables count each. */
  countedAs: Int32Array;
  /** Place in the palette of every module. */
  moduleColours: number[];
  legends: Partial<Record<Tint, LegendAnswer>>;
  trackOfRow: number[];
  trackOfNestedRow: number[];
  groups: Partial<Record<Grouping, ReportGroup>>;
  account: {content: Omit<AccountAnswer, 'data'>; data: AccountAnswer['data']};
  phases: {content: Omit<PhasesAnswer, 'data'>; data: PhasesAnswer['data']};
  path: {content: Omit<PathAnswer, 'data'> | NoPath; data: NumberColumns};
  memory: ReportMemory[];
  counters: Record<string, {ts: NumberArray; value: NumberArray}>;
  told: ReportArguments | null;
  /** Innermost frame of every slice; text and caller of every frame; -1 for none. Null where they are left out. */
  stacks: {texts: string[]; columns: Record<'leaf' | 'frame' | 'parent', NumberArray>} | null;
  flowKinds: string[];
  left: ReportLeft | null;
  panels: ReportPanels;
}
interface ReportArguments {
  columns: Record<'row' | 'code', NumberArray>;
  /** Compressed JSON: a list for each code. */
  texts: string;
  /** A sentence where some are not in the file. */
  left: string;
}
interface ReportPanels {
  /** By name: why it is missing, or its texts; see choice_key in views/report/tabs.py. */
  tabs: Record<string, Record<string, string>>;
  /** Whether rows of the recording are those of the file. */
  focus: boolean;
}

/** Which slices (in trace order) are selected: 1 or 0; null for all. */
type Mask = Uint8Array | null;
/** How much of every crumb is selected: 0–1; null for all. */
type CrumbMask = Float64Array | null;
/** Which slices the selection leaves, without some of its dimensions. */
type Matching = (state: SelectionState, without: string[]) => Mask;
