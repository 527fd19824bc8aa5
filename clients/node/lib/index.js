// Cinch's values without its gateway: opens what gateways have sealed, and seals so that they can open it.
//
// docs/FORMAT.md is the format, docs/LIBRARIES.md says what a library does; attach brings it to ioredis and node-redis.

export { attach } from './attach.js';
export { Dictionary, dictionaryNumber } from './dictionary.js';
export { DEFAULT_MAX_RAW, isSealed, openValue, parseHeader, sealValue } from './envelope.js';
export * from './errors.js';
export { fetchDictionary } from './store.js';
