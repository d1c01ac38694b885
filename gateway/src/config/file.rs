//! The settings as text: read from `aund.toml`, with a hint at the nearest name for an unknown key, and printed.

use super::Config;
use super::sentence::sentence;
use anyhow::Context as _;
use kernel::ServiceRow;
use std::path::Path;

impl Config {
    /// Reads a file; without one the defaults hold.
    pub fn load(file: Option<&Path>, services: &[ServiceRow]) -> anyhow::Result<Config> {
        let Some(file) = file else { return Config::parse("", services) };
        let text =
            std::fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))?;
        Config::parse(&text, services).with_context(|| file.display().to_string())
    }

    /// The settings of this text; each service reads the table of its name.
    pub fn parse(text: &str, services: &[ServiceRow]) -> anyhow::Result<Config> {
        let mut tables: toml::Table =
            toml::from_str(text).map_err(|error| described(&error, Some(text), None))?;
        let mut settings: toml::Table =
            services.iter().filter_map(|service| tables.remove_entry(service.name)).collect();
        // From the text where that is possible, because an error in a table has no position.
        let mut config: Config = match settings.is_empty() {
            true => toml::from_str(text).map_err(|error| described(&error, Some(text), None))?,
            false => tables.try_into().map_err(|error| described(&error, None, None))?,
        };
        for service in services {
            let table = match settings.remove(service.name) {
                Some(toml::Value::Table(table)) => table,
                Some(_) => anyhow::bail!("{}: must be a table", service.name),
                None => toml::Table::new(),
            };
            let configured = service.configured(table);
            config.available.push(configured.map_err(|error| described(&error, None, Some(service.name)))?);
        }
        Ok(config)
    }

    /// The settings as TOML for people: a password in a URL is not shown.
    pub fn shown(&self) -> anyhow::Result<String> {
        let mut shown = self.clone();
        if self.store.url.contains('@') {
            shown.store.url = self.store_url()?.shown();
        }
        if let Some(redis) = self.redis() {
            shown.bus.url = redis.shown();
        }
        let mut text = toml::to_string_pretty(&shown)?;
        for service in &self.available {
            text += "\n";
            text += &service.shown()?;
        }
        Ok(text)
    }
}

fn described(error: &toml::de::Error, text: Option<&str>, table: Option<&str>) -> anyhow::Error {
    anyhow::anyhow!(sentence(error, text, table))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::test_services;

    #[test]
    fn an_unknown_key_is_refused_with_the_nearest_known_one() {
        let error = Config::parse("isuer = 'x'", &test_services()).unwrap_err().to_string();
        assert!(error.contains("line 1") && error.contains("did you mean issuer?"), "{error}");
        let error = Config::parse("[limits]\nsokets = 1", &test_services()).unwrap_err().to_string();
        assert!(error.contains("did you mean sockets?"), "{error}");
    }

    #[test]
    fn a_password_is_not_shown() {
        let config = Config::parse("store.url = 'postgres://me:secret@db/aund'", &test_services()).unwrap();
        assert!(!config.shown().unwrap().contains("secret"));
        let config = Config::parse("bus.url = 'redis://me:secret@host:6379'", &test_services()).unwrap();
        config.check().unwrap();
        assert!(!config.shown().unwrap().contains("secret"));
    }

    #[test]
    fn the_defaults_are_a_whole_configuration() {
        let config = Config::load(None, &test_services()).unwrap();
        config.check().unwrap();
        let again = Config::parse(&config.shown().unwrap(), &test_services()).unwrap();
        assert_eq!(again.listen, config.listen);
    }
}
