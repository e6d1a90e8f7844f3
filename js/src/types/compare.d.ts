// The page of a comparison: what comparison/page sends and what its report holds.
type SideName = 'a' | 'b';

/** What both sides share, in words of the comparison; what that is on each side, and where the aligned steps begin. */
interface ComparedState extends SelectionState {
  a?: SelectionState;
  b?: SelectionState;
  starts?: [number, number];
  /** Which recording of each side is shown. */
  runs?: [number, number];
}

/** What words of the comparison stand for on each side, where those are other words. */
type CounterpartWords = Record<'name' | 'line', [Record<string, string[]>, Record<string, string[]>]>;

interface ComparisonSettings extends Settings {
  names: [string, string];
  /** The heading of differences: "Δ a step", or "Δ" without steps. */
  delta: string;
  sides: Record<SideName, Settings>;
  /** Number, start and duration of the steps of the recordings that are shown. */
  steps: Record<SideName, [number, number, number][]>;
  /** Of each recording that can be shown: its number, the step to align, and how long that takes. */
  runs: Record<SideName, [number, number, number][]>;
  /** Numbers of the recordings that these settings are of. */
  shown: [number, number];
  words: CounterpartWords;
}

interface ComparedPhase {
  phase: string;
  a_ns: number;
  b_ns: number;
  delta_ns: number;
  sure: boolean;
  colour: string;
}

interface ComparedLine {
  change: 'same' | 'changed' | 'new' | 'gone';
  a_line: number | null;
  b_line: number | null;
  text: string;
  delta_ns: number | null;
  sure: boolean;
  /** What a click selects. */
  line: string | null;
}

/** Tables and the flame graph, as a tab has them, and what the page draws itself. */
interface ComparedAnswer extends PanelAnswer {
  phases: ComparedPhase[];
  source: ComparedLine[];
}

type AlignedStep = number | [run: number, step: number];

/** Where the page gets its answers: a kernel, or the file that it lies in. */
interface ComparisonSource {
  side(side: SideName, store: Store, run: number): Promise<Transport>;
  /** Selects what only one side has. */
  own(side: SideName, patch: SelectionPatch, origin: string): Promise<{state?: SelectionState} | null>;
  /** Aligns a step of each side: its number, or those of its run and its own. */
  align(a: AlignedStep, b: AlignedStep): void;
  /** Figures and facts of the recordings that are shown now; a file has those that it was written with. */
  shown?(): Promise<{document: Record<SideName, DocumentJson>; settings: ComparisonSettings}>;
  compared(): Promise<ComparedAnswer>;
}
