// Package queues runs real job queues and locks, which lean on scripts, directly against
// Redis and through the gateway: BullMQ, Celery, Dramatiq, RQ, Sidekiq and redis-py's Lock. Each
// has a driver in its own language, which prints one line a feature (jobs done exactly once,
// large, delayed, retried, in order of priority, limited in rate, in flows) with what came of
// it; the lines have to be the same. docs/REDIS.md says what to exclude for each.
package queues
