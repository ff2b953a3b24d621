<?php
// What makes a stock MediaWiki answer like Wikipedia; read at the end of the installed LocalSettings.php.
$wgSQLiteDataDir = getenv( 'WIKI_ROOT' ) . '/database';  // the folder is copied after it was installed
$wgArticlePath = '/wiki/$1';
$wgServer = 'http://' . ( $_SERVER['HTTP_HOST'] ?? '127.0.0.1' );  // page addresses follow the port in use
$wgJobRunRate = 0;                 // else reads run jobs, and write
$wgMainCacheType = CACHE_ACCEL;    // APCu, shared by the server's workers; SQLite would be written by every read
$wgParserCacheType = CACHE_ACCEL;
$wgMessageCacheType = CACHE_ACCEL;
$wgCacheDirectory = getenv( 'WIKI_ROOT' ) . '/cache';
$wgLocalisationCacheConf['store'] = 'array';  // a PHP file, which opcache holds
$wgPingback = false;

// Stock search on SQLite neither ranks nor folds redirects into their pages; Wikipedia's does both.
$wgAutoloadClasses['RankedSearch'] = __DIR__ . '/RankedSearch.php';
if ( !isset( $GLOBALS['fault']['stock_search'] ) ) {
	$wgSearchType = 'RankedSearch';
}

// Debian's package lacks Disambiguator: a magic word of its name stores the same page property.
$wgExtensionMessagesFiles['Disambiguation'] = __DIR__ . '/Disambiguation.magic.php';
$wgHooks['GetDoubleUnderscoreIDs'][] = static function ( array &$ids ) {
	$ids[] = 'disambiguation';
};

// Faults that MediaWiki itself answers with, HTTP 200; the router has read them from fault.json.
$wgHooks['ApiMaxLagInfo'][] = static function ( array &$lag ) {
	if ( isset( $GLOBALS['fault']['lag_s'] ) ) {
		$lag = [ 'host' => 'replica', 'lag' => $GLOBALS['fault']['lag_s'], 'type' => 'db' ];
	}
};
$wgHooks['ApiCheckCanExecute'][] = static function ( $module, $user, &$message ) {
	if ( $module->getModuleName() === 'query' && isset( $GLOBALS['fault']['api_error'] ) ) {
		$message = $GLOBALS['fault']['api_error'];
		return false;
	}
	return true;
};
