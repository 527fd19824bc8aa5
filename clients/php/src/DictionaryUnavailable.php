<?php

declare(strict_types=1);

namespace Cinch;

/** The store did not answer when it was asked for a dictionary. Later it may. */
final class DictionaryUnavailable extends EnvelopeException
{
}
