// The live views of a profile.
import {publishCells} from '../editor/cell_events.js';
import {publishLines} from '../editor/line_events.js';
import {mount} from '../page/mount.js';
import {answersTo} from '../widget/page_answers.js';
import {createWidget} from '../widget/widget.js';

/** @type {import('../widget/widget.js').Beside} */
const publish = (...given) => {
  const ends = [publishLines(...given), publishCells(...given)];
  return () => ends.forEach((end) => end());
};

export default createWidget(mount, false, publish, answersTo);
