// Which questions a step learns from.

/// Questions of one step.
export const LESSON = 16;

/// The step's questions, steps counted from 0, in an order that is the same at every visit; all are asked before one comes again.
export function lesson(questions, step) {
  const order = questions.map((question, place) => [(place * 7919) % 10007, question]).sort(([a], [b]) => a - b);
  return Array.from({ length: LESSON }, (_, i) => order[(step * LESSON + i) % order.length][1]);
}
