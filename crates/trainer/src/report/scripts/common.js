"use strict";
// Everything that is shown was written by a model or stands in a corpus: it is only ever set as text.

const data = JSON.parse(document.getElementById("data").textContent);

const element = (tag, className, ...children) => {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children);
  return made;
};
const number = (value) => (Math.abs(value) >= 1e-3 && Math.abs(value) < 1e5) || value === 0
  ? String(Number(value.toPrecision(4))) : value.toExponential(1);
