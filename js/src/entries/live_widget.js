// A recording that runs.
import {liveWidget} from '../live/view.js';

export default liveWidget;
