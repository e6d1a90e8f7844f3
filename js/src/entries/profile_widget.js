// The live views of a profile.
import {mount} from '../page/mount.js';
import {createWidget} from '../widget/widget.js';

export default createWidget(mount, false);
