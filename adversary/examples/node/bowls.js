// Bowls that drift, and a budget: the game. It knows nothing of gRPC; server.js serves it.
//
//   f_{i,t}(x) = 1/2 |x - c|^2      c (p,) uniform on target + drift w_t + [-noise, noise]
//   g_{i,t}(x) = a'x - budget       a (p,) uniform on [1/2, 3/2]
//
// Agent i wants to be at c and pays the prices a for it. w_t is a wave of straight lines: from 0 up to 1, down to -1
// and back in `period` rounds. Losses are strongly convex with modulus 1, and Slater's condition holds with x = 0 and
// margin budget, if 0 lies in the feasible set. Sums and products only, in a fixed order: the same bits everywhere.

import { createHash } from 'node:crypto';

const mean = (numbers) => numbers.reduce((total, each) => total + each, 0) / numbers.length;

function dot(a, b) {
  let total = 0;
  for (let index = 0; index < a.length; index += 1) total += a[index] * b[index];
  return total;
}

/** This game cannot be played; the sentence is shown to the operator. */
export class CannotPlay extends Error {}

/** The functions of one agent in one round. */
class Bowl {
  constructor(centre, prices, budget) {
    Object.assign(this, { centre, prices, budget });
  }

  // A round is scored by n agents' functions at n points: a loop, since arrays in between cost several times as much.
  loss(x) {
    let total = 0;
    for (let index = 0; index < x.length; index += 1) {
      const away = x[index] - this.centre[index];
      total += away * away;
    }
    return 0.5 * total;
  }

  lossGradient(x) {
    return x.map((each, index) => each - this.centre[index]);
  }

  /** One number for each constraint; feasible where none is above 0. */
  constraint(x) {
    return [dot(this.prices, x) - this.budget];
  }

  /** One row for each constraint, one after the other. */
  constraintGradient() {
    return this.prices;
  }
}

/** The functions of all agents in all rounds. */
export class Bowls {
  static constraints = 1;
  static defaults = { target: 1, drift: 0.5, period: 200, noise: 1, budget: 1 };

  constructor(agents, dimension, seed, options) {
    for (const [name, value] of Object.entries(options)) {
      const key = `adversary.options.${name}`;
      const positive = ['period', 'budget'].includes(name);
      if (!Object.hasOwn(Bowls.defaults, name)) {
        throw new CannotPlay(`${key} is not an option of Bowls; it takes ${Object.keys(Bowls.defaults).join(', ')}`);
      }
      if (!Number.isFinite(value) || (positive && value <= 0)) {
        throw new CannotPlay(`${key} must be a number${positive ? ' above 0' : ''}, not ${JSON.stringify(value)}`);
      }
    }
    Object.assign(this, Bowls.defaults, options, { agents, dimension, seed });
  }

  /** Return every agent's functions of a round. They follow from the seed alone: a restart makes them again. */
  play(round) {
    const wave = 1 - Math.abs(4 * ((round / this.period + 0.25) % 1) - 2);
    return Array.from({ length: this.agents }, (_, agent) => {
      const numbers = this.#uniform(agent, round);
      const away = numbers.slice(0, this.dimension).map((each) => this.noise * (2 * each - 1));
      const prices = numbers.slice(this.dimension).map((each) => 0.5 + each);
      return new Bowl(away.map((each) => this.target + this.drift * wave + each), prices, this.budget);
    });
  }

  /** Return 2p numbers on [0, 1) that belong to an agent and a round, whatever was drawn before them. */
  #uniform(agent, round) {
    const count = 2 * this.dimension;
    const hash = createHash('shake256', { outputLength: 6 * count }).update(`${this.seed} ${agent} ${round}`);
    const bytes = hash.digest();
    return Array.from({ length: count }, (_, index) => bytes.readUIntLE(6 * index, 6) / 2 ** 48);
  }
}

/** Return the average loss of some agents at x. */
export const networkLoss = (bowls, x) => mean(bowls.map((bowl) => bowl.loss(x)));

/** Return the norm of what is above 0 in their constraints at x. */
export function networkViolation(bowls, x) {
  let total = 0;
  for (const bowl of bowls) for (const each of bowl.constraint(x)) if (each > 0) total += each * each;
  return Math.sqrt(total);
}

/** Return H, row after row, h and c: their average loss is 1/2 x'Hx + h'x + c. */
export function quadratic(bowls) {
  const axes = [...bowls[0].centre.keys()];
  const identity = axes.flatMap((row) => axes.map((column) => Number(row === column)));
  const slope = axes.map((axis) => -mean(bowls.map((bowl) => bowl.centre[axis])));
  return [...identity, ...slope, mean(bowls.map((bowl) => 0.5 * dot(bowl.centre, bowl.centre)))];
}

/** Return B, row after row, and b: their constraints are Bx - b. */
export const linear = (bowls) => [...bowls.flatMap((bowl) => bowl.prices), ...bowls.map((bowl) => bowl.budget)];
