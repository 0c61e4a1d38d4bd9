'use strict';

const { express, fastify, koa, wrap } = require('./adapters');
const { measure } = require('./exchange');
const { eventLoop, stats, statsHandler } = require('./stats');

module.exports = { eventLoop, express, fastify, koa, measure, stats, statsHandler, wrap };
