// Opens what envelope/testdata/bombs has: few bytes that declare many, and counts the work, which no clock does.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { Reader } from '../lib/blocks.js';
import { compileGlob } from '../lib/glob.js';
import * as cinch from '../lib/index.js';

const bombs = JSON.parse(readFileSync(new URL('../../../envelope/testdata/bombs/index.json', import.meta.url)));

/** How often functions of these prototypes are called meanwhile, and what the call returns or throws. More than limit calls end it. */
function counted(functions, limit, call) {
  let calls = 0;
  const originals = functions.map(([on, name]) => [on, name, Object.getOwnPropertyDescriptor(on, name)]);
  for (const [on, name] of functions) {
    const original = on[name];
    const value = function (...args) {
      assert.ok(++calls <= limit, `over ${limit} calls`);
      return original.apply(this, args);
    };
    Object.defineProperty(on, name, { value, configurable: true, writable: true });
  }
  try {
    return { calls, value: call() };
  } catch (error) {
    return { calls, error };
  } finally {
    for (const [on, name, before] of originals) {
      if (before) Object.defineProperty(on, name, before);
      else delete on[name];
    }
  }
}

for (const bomb of bombs) {
  test(`work is bounded: ${bomb.name}`, () => {
    const stored = Buffer.from(bomb.stored, 'base64');
    const doublings = Math.log2(bomb.raw_len + 1);
    const work = [
      [Reader.prototype, 'skip'],
      [Uint8Array.prototype, 'copyWithin'],
    ];
    const { value, error } = counted(work, 4 * stored.length + 4 * doublings, () => cinch.openValue(stored));
    if (bomb.error) {
      assert.equal(error?.constructor, cinch.Damaged, error?.message);
      return;
    }
    assert.ifError(error);
    const period = Buffer.from(bomb.period, 'base64');
    assert.ok(value.equals(Buffer.alloc(bomb.raw_len, period)));
  });
}

test('no pattern goes back over stars', () => {
  const matches = compileGlob(`${'*a'.repeat(40)}*b`);
  const text = 'a'.repeat(5000);
  const { value, error } = counted([[RegExp.prototype, 'test']], 50, () => matches(Buffer.from(text)));
  assert.ifError(error);
  assert.equal(value, false);
  assert.equal(matches(Buffer.from(`${text}b`)), true);
});

test('globs are like those of Redis', () => {
  for (const [pattern, text, want] of [
    ['', '', true], ['', 'a', false], ['*', '', true], ['**', '\n', true], ['a*a', 'a', false], ['a*a', 'aa', true],
    ['*ab*ba', 'aba', false], ['*ab*ba', 'abba', true], ['*ab*ba', 'xababba', true], ['a*b*c', 'a-b-b-c', true],
    ['a*b*c', 'a-c-b', false], ['?*?', 'a', false], ['?*?', 'ab', true], ['*[^a]', 'aa', false], ['*[^a]', 'ab', true],
    ['\\**', '*x', true], ['\\**', 'xx', false], ['a*[', 'ab', false], ['*b', 'abab', true], ['*abc*abc*', 'abcabc', true],
  ]) {
    assert.equal(compileGlob(pattern)(Buffer.from(text)), want, `${pattern} on ${text}`);
  }
});
