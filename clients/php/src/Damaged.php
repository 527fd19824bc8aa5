<?php

declare(strict_types=1);

namespace Cinch;

/** No version of Cinch wrote these bytes, or one far newer. */
final class Damaged extends EnvelopeException
{
}
