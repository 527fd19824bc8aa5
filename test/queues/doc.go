// Package queues runs real job queues and locks, which use many scripts, directly against Redis and through
// the gateway: BullMQ, Celery, Dramatiq, RQ, Sidekiq and redis-py's Lock. Each has a driver in its own
// language that prints the result of each feature in one line (jobs done exactly once, large, delayed,
// retried, in order of priority, rate-limited, in flows). The lines must be the same. docs/REDIS.md lists
// the keys to exclude for each.
package queues
