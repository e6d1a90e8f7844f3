// The live page of many ranks.
import {mountRanks} from '../ranks/page.js';
import {createWidget} from '../widget/widget.js';

export default createWidget(mountRanks, true);
