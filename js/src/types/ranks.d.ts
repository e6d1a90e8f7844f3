// The page of many ranks: what ranks/page sends and what its report holds.

type RankFigure = 'bars' | 'late' | 'heat' | 'marey' | 'talk' | 'links' | 'bubbles';

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
