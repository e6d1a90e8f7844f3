// Frames of libraries and around everything are hidden at first. One switch shows all frames of a timeline, each below what
// called it; where libraries are folded, its tracks have other rows then (`Meta.unfolded`), and questions say so.

/**
 * How many rows of a track are hidden until all frames are shown.
 * @param {Pick<Meta, 'tracks'>} meta
 * @param {{track: number}} track
 */
export function hiddenFrames(meta, {track}) {
  const {outer_rows: outer, folded} = meta.tracks.find((t) => t.track === track) ?? {outer_rows: 0, folded: 0};
  return outer + folded;
}

/**
 * Whether a row is one of those.
 * @param {Track | undefined} track
 * @param {number} row
 */
const isHidden = (track, row) => track !== undefined && (row < track.row + track.outer_rows || row >= track.row + track.depths - track.folded);

/**
 * Show all frames of a timeline, or hide those again.
 * @param {import('./timeline.js').Timeline} timeline
 * @param {boolean} all
 */
export function showAllFrames(timeline, all) {
  const {ctx, lanes, pictures, detail} = timeline;
  lanes.showAllFrames(all);
  ctx.asker.unfolded = all && ctx.meta.unfolded.length > 0;
  pictures.have = null; // its rows are others
  timeline.gutter.render();
  timeline.relayout();
  timeline.refresh();
  timeline.indicators.changed();
  if (detail) ask(ctx, detail.id, (found) => timeline.setDetail(found));
}

/**
 * Show all frames if a row is hidden without them; gives whether it was.
 * @param {import('./timeline.js').Timeline} timeline
 * @param {number} row
 * @param {number} [id] the slice that is looked for in it, and scrolled to
 */
export function showHidden(timeline, row, id) {
  const {lanes} = timeline;
  if (lanes.allFrames || !isHidden(lanes.trackOf(row), row)) return false;
  showAllFrames(timeline, true);
  if (id !== undefined) ask(timeline.ctx, id, (found) => timeline.showRow(found.row));
  return true;
}

/**
 * @param {Context} ctx
 * @param {number} id
 * @param {(found: SliceDetail) => void} use
 */
function ask({asker, trouble}, id, use) {
  asker.ask({t: 'detail', id}).then((found) => found.found && use(found), trouble);
}
