// The page of many ranks: what ranks/page sends and what its report holds.

/** Columns by name; null where a number is missing. */
type RankColumns = Record<string, (number | string | null)[]>;
/** Name and label of a part that is stacked. */
type RankPart = [name: string, label: string];
type RankFigure = 'bars' | 'late' | 'heat' | 'marey' | 'talk' | 'links' | 'bubbles';

/** Sums of all ranks, as ranks/page/report.py writes them. */
interface RankSums {
  panels: RankFigure[];
  limits: {faded: number; cells: number; lines: number; talk: number; room: number; rows: number; middle: string[]};
  parts: Record<'bars' | 'talk' | 'bubbles', RankPart[]>;
  click: string;
  notes: Record<string, string>;
  steps: RankColumns;
  talk: RankColumns;
  late: RankColumns;
  before: RankColumns;
  links: RankColumns;
  bubbles: RankColumns;
  ranks: RankColumns;
}

/** A figure of the page: ranks/page/figures.py. */
interface RankPanelSettings {
  name: RankFigure;
  title: string;
  legend: [string, string][];
  x: string;
  y: string;
}

/** The timelines that lie in a report, and what is not there. */
interface RankTimelinesSettings {
  ranks: number[];
  note: string;
}

interface RankSettings extends Settings {
  panels: RankPanelSettings[];
  /** Label, reason and ranks of sets that can be selected at once. */
  groups: [string, string, number[]][];
  timelines?: RankTimelinesSettings;
}

/** What an opened timeline mounts with. */
interface OpenedTimelines {
  failed?: string;
  of: number;
  ranks: number[];
  document: string;
  settings: Settings;
  /** Ranks that are selected with it. */
  select?: number[] | null;
}

/** What the figures of the ranks share. */
interface RankContext {
  host: Host;
  settings: RankSettings;
  store: Store;
  meta: {tracks: Track[]};
  tooltip: Tooltip;
  theme: Theme;
  open(ranks: number[] | null | undefined): Promise<void>;
}
