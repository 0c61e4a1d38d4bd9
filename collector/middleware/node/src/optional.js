'use strict';

// Packages that this one uses only where the app has installed them.

const { createRequire } = require('node:module');
const path = require('node:path');

/**
 * Return a package of the app: from beside this package, or from the app's working directory.
 *
 * @param {string} name of the package
 * @param {() => object} load requires it by its literal name, which bundlers need
 * @throws {Error} if it is not installed, or fails to load
 */
function packageOfApp(name, load) {
  try {
    return load();
  } catch (error) {
    if (error.code !== 'MODULE_NOT_FOUND') throw error;
    // A package installed from a folder is a symbolic link, and the app's packages are not above its target.
    return createRequire(path.join(process.cwd(), 'package.json'))(name);
  }
}

module.exports = { packageOfApp };
