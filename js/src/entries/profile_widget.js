// The live views of a profile.
import {publishLines} from '../editor/line_events.js';
import {mount} from '../page/mount.js';
import {answersTo} from '../widget/page_answers.js';
import {createWidget} from '../widget/widget.js';

export default createWidget(mount, false, publishLines, answersTo);
