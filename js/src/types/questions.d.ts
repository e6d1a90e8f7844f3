// Written by `python -m notebook_prof.service.messages`: do not change it here.
/** A stretch of a curve: from `a` to `b` in ns, `px` wide. */
interface CurveRequest {
  a: number;
  b: number;
  px: number;
}
/** The facts of the trace; what is doubtful may come later, as it takes seconds for a long recording. */
interface MetaRequest {
  doubts?: 'later';
}
/** What is doubtful, by name. */
interface DoubtsRequest {}
/** All names from the one with number `start` on, as many as fit into a message. */
interface NamesRequest {
  start: number;
}
/** The account of the cell. */
interface AccountRequest {}
/** The slices of some rows in a window; `picture` is the number of the picture that the page has. */
interface LodRequest {
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
/** The memory of a device, or of the first that has any. */
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
/** The slice of the same name after (`by` = 1) or before (-1) that with row `id`, on its track. */
interface FindRequest {
  id: number;
  by: number;
}
/** The slice beside that with row `id`. */
interface NeighbourRequest {
  id: number;
  to: string;
  row: number;
  at: number;
}
/** Why the slice with this row, or the track with this key at a time, does what it does. */
interface WhyRequest {
  id?: number;
  track?: number;
  at?: number;
}
/** Slices whose name has this text, from the slice `id` or the time `at` on. */
interface SearchRequest {
  text: string;
  px: number;
  id?: number | null;
  by?: number;
  at?: number;
}
/** Calls of `names` in a step (None: in all), and the place of the slice `id` or the slice at `place`. */
interface CallsRequest {
  names: string[];
  step: number | null;
  device: boolean;
  id?: number;
  place?: number;
}
/** A tab, not filtered by the dimensions that it set itself, as its choices say. */
interface PanelRequest {
  name: string;
  own: Dimension[];
  choices: Record<string, string>;
}
/** The columns of the recording, from which the page answers by itself from then on. */
interface RecordingRequest {}
/** What the figures of many recordings show. */
interface RanksRequest {}
/** The critical path of the steps, or of the whole recording. */
interface PathRequest {}
/** How many slices of each row are selected: before, in and after the time from `a` to `b`, ns. */
interface SelectedRequest {
  a: number;
  b: number;
}
/** How long steps would take if what is selected took `factor` times as long. */
interface WhatIfRequest {
  factor: number;
}
/** What is asked with each question beside its name. */
interface Asked {
  meta: MetaRequest;
  doubts: DoubtsRequest;
  names: NamesRequest;
  account: AccountRequest;
  lod: LodRequest;
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
