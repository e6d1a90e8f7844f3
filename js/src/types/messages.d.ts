// How questions and answers travel; questions.d.ts and answers.d.ts say what they are.
type NumberArray = Float64Array | Float32Array | Int32Array | Uint32Array | Uint16Array | Uint8Array;
type ColumnType = 'f8' | 'f4' | 'i4' | 'u4' | 'u2' | 'u1';
type NumberColumns = Record<string, NumberArray>;

interface RawAnswer {
  content: Header & {[name: string]: unknown};
  buffers: ArrayBufferView[];
}

interface Message {
  t: string;
  [name: string]: unknown;
}

interface Transport {
  request(message: Message): Promise<RawAnswer>;
  flush?(): void;
  /** Whether the views go on without a kernel. */
  readonly alone?: boolean;
  whenLost?(tell: () => void): () => void;
  whenTold?(tell: (text: string, pieces: HeadlinePiece[][], before: RunBefore | undefined) => void): () => void;
}

type Dimension = 'window' | 'name' | 'category' | 'track' | 'step' | 'phase' | 'rank' | 'group' | 'line' | 'focus';
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
  /** As `cell:12`. */
  line?: string[] | null;
  /** Row of the slice under inspection. */
  focus?: number | null;
  /** Tracks that stay at the top of the timeline, first to last. */
  pinned?: number[] | null;
  revision?: number;
}
type SelectionPatch = Omit<SelectionState, 'revision'>;

type Tint = 'name' | 'phase' | 'category' | 'module' | 'step';
type Grouping = 'name' | 'shapes' | 'module' | 'category';

/** Numbers of the operator table. */
type TableNumber = Exclude<keyof TableColumns, 'name' | 'side' | 'waits'>;
/** Key, text and unit of a column of a tab's table. */
type TableHead = TablePart['heads'][number];
interface AbsentPart {
  kind: 'absent';
  text: string;
}
/** A part of a tab with the columns of its table. */
type ShownPart = AbsentPart | (TabPart & {columns: NumberColumns});
type ShownTable = TablePart & {columns: NumberColumns};
type ShownSource = SourcePart & {columns: NumberColumns};
type ShownTree = TreePart & {columns: NumberColumns};
type ShownStack = StackPart & {columns: NumberColumns};

type Question = keyof Asked & keyof Answers;
type QuestionOf<Q extends Question> = {t: Q} & Asked[Q];
type AnswerOf<Q extends Question> = Answers[Q] & {revision?: number};
