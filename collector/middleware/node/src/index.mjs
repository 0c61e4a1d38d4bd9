import sojourn from './index.js';

export const { eventLoop, express, fastify, koa, measure, stats, statsHandler, wrap } = sojourn;
export default sojourn;
