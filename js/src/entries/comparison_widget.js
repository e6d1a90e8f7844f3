// The live page of a comparison.
import {mountComparison} from '../compare/mount.js';
import {createWidget} from '../widget/widget.js';

export default createWidget(mountComparison, true);
