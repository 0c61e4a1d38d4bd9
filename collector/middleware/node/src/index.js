'use strict';

const { express, fastify, koa, wrap } = require('./adapters');
const { eventLoop } = require('./event_loop');
const { measure } = require('./exchange');
const { stats, statsHandler } = require('./stats');

module.exports = { eventLoop, express, fastify, koa, measure, stats, statsHandler, wrap };
