// Serves the game of bowls.js as slaternet.v1.Plugin; proto/slaternet/v1/plugin.proto says what each field means.
// A process of Node runs one call at a time, which is all that a game asks for.

import { createHash, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import grpc from '@grpc/grpc-js';
import protoLoader from '@grpc/proto-loader';
import { Bowls, CannotPlay, linear, networkLoss, networkViolation, quadratic } from './bowls.js';

const METHODS = { loss_gradient: true, constraint_gradient: true, network: true, quadratic: true, linear: true };
const KEPT = 64; // instances; beyond, the one that has gone longest without a call is forgotten: a game makes it again
const LARGEST = 64 << 20; // bytes of a message

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const code = ['bowls.js', 'server.js'].map((name) => readFileSync(here(name)));
const version = createHash('sha256').update(Buffer.concat(code)).digest('hex');
const instances = new Map(); // name -> { game, rounds: Map(round -> functions) }, the last called last

function describe({ agents, dimension, seed, options, probe }) {
  const instance = randomUUID();
  instances.set(instance, { game: new Bowls(agents, dimension, seed, JSON.parse(options || '{}')), rounds: new Map() });
  if (instances.size > KEPT) instances.delete(instances.keys().next().value);
  return { instance, constraints: Bowls.constraints, rowwise: true, methods: probe ? METHODS : null, version };
}

function play({ instance, round, needed }) {
  const { game, rounds } = find(instance);
  [...rounds.keys()].filter((each) => each < Number(needed)).forEach((each) => rounds.delete(each));
  rounds.set(Number(round), game.play(Number(round)));
  return { methods: METHODS };
}

function evaluate(asked) {
  const { game, functions } = played(asked);
  const points = vectors(asked.data, game.dimension);
  if (points.length !== functions.length * asked.points) throw new Error('data must hold s points for each agent');
  const all = (method) => packed(points.flatMap((x, row) => functions[Math.floor(row / asked.points)][method](x)));
  return {
    ...(asked.values && { f: all('loss'), g: all('constraint') }),
    ...(asked.loss_gradient && { loss_gradient: all('lossGradient') }),
    ...(asked.constraint_gradient && { constraint_gradient: all('constraintGradient') }),
    ...(asked.quadratic && { quadratic: packed(quadratic(functions)) }),
    ...(asked.linear && { linear: packed(linear(functions)) }),
  };
}

function score(asked) {
  const { game, functions } = played(asked);
  const points = vectors(asked.points, game.dimension);
  return {
    loss: packed(points.map((x) => networkLoss(functions, x))),
    violation: packed(points.map((x) => networkViolation(functions, x))),
  };
}

class NotFound extends Error {}

function find(instance) {
  const found = instances.get(instance);
  if (!found) throw new NotFound(`there is no instance ${instance}; describe the game again`);
  instances.delete(instance);
  instances.set(instance, found);
  return found;
}

/** Return the game of a request, and the functions of the agents it asks about. */
function played({ instance, round, agents }) {
  const { game, rounds } = find(instance);
  const everyone = rounds.get(Number(round));
  if (!everyone) throw new Error(`round ${round} was not played, or is not needed any more`);
  const functions = Array.from({ length: agents.length / 4 }, (_, index) => everyone[agents.readUInt32LE(4 * index)]);
  if (functions.includes(undefined)) throw new Error(`only agents 0 to ${game.agents - 1} play`);
  return { game, functions };
}

/** Return the rows of little-endian float64. */
function vectors(bytes, dimension) {
  const row = (start) => Array.from({ length: dimension }, (_, index) => bytes.readDoubleLE(start + 8 * index));
  return Array.from({ length: bytes.length / (8 * dimension) }, (_, index) => row(8 * dimension * index));
}

function packed(numbers) {
  const bytes = Buffer.alloc(8 * numbers.length);
  numbers.forEach((each, index) => bytes.writeDoubleLE(each, 8 * index));
  return bytes;
}

function status(error) {
  if (error instanceof CannotPlay) return grpc.status.INVALID_ARGUMENT;
  return error instanceof NotFound ? grpc.status.NOT_FOUND : grpc.status.INTERNAL;
}

/** Answer calls by a function from request to reply. */
const answer = (method) => (call, callback) => {
  let reply;
  try {
    reply = method(call.request);
  } catch (error) {
    return callback({ code: status(error), details: error.message });
  }
  callback(null, reply);
};

function stop(sentence) {
  console.error(sentence);
  process.exit(2);
}

function start() {
  const { values: flags } = parseArgs({
    options: {
      listen: { type: 'string', default: '127.0.0.1:50100' },
      proto: { type: 'string', default: here('../../../proto/slaternet/v1/plugin.proto') },
    },
  });
  // 64-bit numbers as strings: a seed may be too large for a double
  const found = protoLoader.loadSync(flags.proto, { keepCase: true, longs: String, defaults: true });
  const { Plugin } = grpc.loadPackageDefinition(found).slaternet.v1;
  const server = new grpc.Server({ 'grpc.max_receive_message_length': LARGEST });
  server.addService(Plugin.service, {
    Describe: answer(describe),
    Play: answer(play),
    Evaluate: answer(evaluate),
    Score: answer(score),
  });
  server.bindAsync(flags.listen, grpc.ServerCredentials.createInsecure(), (error, port) => {
    if (error) stop(`--listen ${flags.listen} cannot be used: ${error.message}`);
    console.log(`listening on grpc://${flags.listen.slice(0, flags.listen.lastIndexOf(':'))}:${port}`);
  });
  for (const signal of ['SIGTERM', 'SIGINT']) process.once(signal, () => server.tryShutdown(() => process.exit(0)));
}

try {
  start();
} catch (error) {
  stop(error.message);
}
