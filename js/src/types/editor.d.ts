// What the page tells the editor extension of a cell, as an event on the document.

/** A line of the cell, from 1 as the editor counts; `host` and `device` are shares of the line that takes most. */
interface EditorLine {
  line: number;
  host: number;
  device: number;
  /** Such a share in the run before, of a line that calls no other. */
  before?: number;
  label: string;
}

interface EditorHeat {
  protocol: number;
  /** Who tells it: a display of a profile. */
  widget: symbol;
  /** Knows the notebook of the widget. */
  manager: any;
  el: HTMLElement;
  /** Id of the cell when it was recorded; empty where the front-end does not tell. */
  cell: string;
  source: string;
  /** Null takes it back. */
  lines: EditorLine[] | null;
  chosen: number[];
  /** The hottest lines in words. */
  words: string;
  select(line: number, extend: boolean): void;
}

/** What a cell of a watched notebook took when it ran last: see analysis/notebook/badges.py. */
interface EditorCell {
  id: string;
  number: number;
  wall_ns: number;
  kept_bytes: number;
  source: string;
  name: string;
  /** Why its results are not up to date, or empty. */
  stale: string;
}

interface EditorCells {
  protocol: number;
  widget: symbol;
  manager: any;
  el?: HTMLElement;
  /** Null takes them back. */
  cells: Map<string, EditorCell> | null;
  /** Whether a cell is selected. */
  chosen(id: string): boolean;
  /** Null where there is no view. */
  select: ((id: string) => void) | null;
}
