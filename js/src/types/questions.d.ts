// Questions of a page, as `service/questions.py` decodes them; a test compares both.
/** A stretch of a curve: from `a` to `b` in ns, `px` wide. */
interface CurveRequest {
  a: number;
  b: number;
  px: number;
}
/** The facts of the trace; doubts may follow later, since they take seconds for a long recording. */
interface MetaRequest {
  doubts?: 'later';
}
/** Doubts by name. */
interface DoubtsRequest {}
/** Names from number `start` on, as many as fit into a message. */
interface NamesRequest {
  start: number;
}
/** The account of the cell. */
interface AccountRequest {}
/** The slices of some rows in a window; `picture` is the number of the page's current picture. */
interface TimelineRequest {
  a: number;
  b: number;
  px: number;
  rows: number[];
  places: number[];
  zoom: number;
  tint: Tint;
  max_quads: number;
  find: string;
  picture?: number;
}
/** What the colours of the timeline mean. */
interface LegendRequest {
  tint: Tint;
}
/** The whole recording in one strip. */
interface StripRequest {
  px: number;
  tint: Tint;
  picture?: number;
}
/** The memory of a device, or of the first one with any. */
interface MemoryRequest {
  a: number;
  b: number;
  px: number;
  device: number | null;
}
/** The counters with these keys. */
interface CountersRequest {
  a: number;
  b: number;
  px: number;
  tracks: number[];
}
/** Time by step and phase. */
interface PhasesRequest {}
/** A page of the table; `by_side` sorts by times of the host, and kernels by times of the device. */
interface TableRequest {
  by: Grouping;
  scope: 'all' | 'host' | 'device';
  filter: string;
  sort: string;
  waits: boolean;
  descending?: boolean;
  by_side?: boolean;
  start: number;
  top: number;
}
/** The slice with this row. */
interface DetailRequest {
  id: number | null;
}
/** The next (`by` = 1) or previous (-1) slice with the same name and track as the one in row `id`. */
interface FindRequest {
  id: number;
  by: number;
}
/** The neighbour of the slice in row `id`. */
interface NeighbourRequest {
  id: number;
  to: string;
  row: number;
  at: number;
}
/** Why a slice (by row), or a track (by key) at an instant, does what it does. */
interface WhyRequest {
  id?: number;
  track?: number;
  at?: number;
}
/** Slices that match this text, from slice `id` or time `at` on. */
interface SearchRequest {
  text: string;
  px: number;
  id?: number | null;
  by?: number;
  at?: number;
}
/** Calls of `names` in a step (None: all), and the position of slice `id` or the slice at `place`. */
interface CallsRequest {
  names: string[];
  step: number | null;
  device: boolean;
  id?: number;
  place?: number;
}
/** A tab with these choices, not filtered by the dimensions that it set itself. */
interface PanelRequest {
  name: string;
  own: Dimension[];
  choices: Record<string, string>;
}
/** The columns of the recording, so that the page can answer by itself. */
interface RecordingRequest {}
/** The content of the ranks' figures. */
interface RanksRequest {}
/** The critical path of the steps, or of the whole recording. */
interface PathRequest {}
/** The number of selected slices in each row before, in and after ``[a, b)``, ns. */
interface SelectedRequest {
  a: number;
  b: number;
}
/** The duration of steps if the selected work took `factor` times as long. */
interface WhatIfRequest {
  factor: number;
}
/** The fields of each question, besides its name. */
interface Asked {
  meta: MetaRequest;
  doubts: DoubtsRequest;
  names: NamesRequest;
  account: AccountRequest;
  timeline: TimelineRequest;
  legend: LegendRequest;
  strip: StripRequest;
  memory: MemoryRequest;
  counters: CountersRequest;
  phases: PhasesRequest;
  table: TableRequest;
  detail: DetailRequest;
  find: FindRequest;
  neighbour: NeighbourRequest;
  why: WhyRequest;
  search: SearchRequest;
  calls: CallsRequest;
  panel: PanelRequest;
  recording: RecordingRequest;
  ranks: RanksRequest;
  path: PathRequest;
  selected: SelectedRequest;
  what_if: WhatIfRequest;
}
