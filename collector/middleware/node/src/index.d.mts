import * as sojourn from './index.js';

export * from './index.js';
export default sojourn;
