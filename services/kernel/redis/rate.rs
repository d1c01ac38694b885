//! Limits that hold over several gateways.

use super::RedisContext;
use std::time::Duration;

/// A login does not wait longer than this to be counted; without an answer the limits of the process alone hold.
const COUNT_TIMEOUT: Duration = Duration::from_millis(250);

/// The same rule as in the process: a bucket that holds `burst` and gets one back every `every` milliseconds, kept as the
/// time at which it will be full again. Gives how long to wait, or nothing.
const SCRIPT: &str = "
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local every, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local full = math.max(tonumber(redis.call('GET', KEYS[1]) or now), now) + every
local wait = full - every * burst - now
if wait > 0 then return math.ceil(wait) end
redis.call('SET', KEYS[1], string.format('%.3f', full), 'PX', math.ceil(full - now))
return 0";

impl RedisContext {
    /// Counts one more of something that may happen `most` times within this time. `Err` says how long to wait.
    pub(crate) async fn count(&self, what: &str, most: u32, time: Duration) -> Result<(), Duration> {
        let Some(connection) = self.connection.now() else { return Ok(()) };
        let most = most.max(1);
        let every_ms = time.as_secs_f64() * 1000.0 / f64::from(most);
        let mut script = redis::cmd("EVAL");
        script.arg(SCRIPT).arg(1).arg(self.keys.rate(what)).arg(every_ms).arg(most);
        match tokio::time::timeout(COUNT_TIMEOUT, connection.ask::<u64>(&script)).await {
            Ok(Ok(0)) | Err(_) => Ok(()),
            Ok(Ok(wait_ms)) => Err(Duration::from_millis(wait_ms)),
            Ok(Err(error)) => {
                self.connection.lost(&connection, &error);
                Ok(())
            }
        }
    }
}
